/** Waits for new node pools and networks to find out what they have, so that a generation begins ready to serve. */
import type { Clock } from "../../plugin.ts";

/** One whose nodes hang must not hold up a start or a reload for longer: it serves as well as it can. */
const mostMs = 2_000;

/** Resolves when every one is settled, or after 2 s. */
export async function awaitBackends(
  backends: Iterable<{ readonly settled?: Promise<void> }>,
  clock: Clock,
): Promise<void> {
  const late = Promise.withResolvers<void>();
  using _timer = clock.after(mostMs, late.resolve);
  const all = Promise.all(Array.from(backends, ({ settled }) => settled ?? Promise.resolve()));
  await Promise.race([all, late.promise]);
}
