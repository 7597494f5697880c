/** Waiting without a clock. */

/** Waits until a condition holds, turn by turn of the event loop. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 5));
}

/** A gate that a scripted worker waits at. */
export function gate(): { readonly pass: () => Promise<void>; open(): void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { pass: () => promise, open: resolve };
}
