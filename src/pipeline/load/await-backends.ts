/** Waits for services to find out whether they can serve, so that a generation begins ready to serve. */
import type { Clock } from "../../plugin.ts";

/** A backend that hangs must not delay a start or a reload for longer. */
const maxMs = 2_000;

/** Resolves when all of them have settled, or after 2 s. */
export async function awaitBackends(
  initialized: readonly (Promise<void> | undefined)[],
  clock: Clock,
): Promise<void> {
  const late = Promise.withResolvers<void>();
  using _timer = clock.after(maxMs, late.resolve);
  await Promise.race([Promise.allSettled(initialized.map(async (each) => each)), late.promise]);
}
