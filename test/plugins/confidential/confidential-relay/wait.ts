/** Waits until a condition holds. It checks once per turn of the event loop. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 5));
}

/** A gate at which a scripted worker waits. */
export function gate(): { readonly pass: () => Promise<void>; open(): void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { pass: () => promise, open: resolve };
}
