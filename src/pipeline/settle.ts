/** Waits for new node pools to find out which of their nodes are usable, so that a generation begins ready to serve. */
import type { Clock } from "../plugin.ts";

/** A pool whose nodes hang must not hold up a start or a reload for longer: it serves as well as it can. */
const SETTLE_MS = 2_000;

/** Resolves when every ledger is settled, or after 2 s. */
export async function settle(
  ledgers: Iterable<{ readonly settled?: Promise<void> }>,
  clock: Clock,
): Promise<void> {
  const late = Promise.withResolvers<void>();
  using _timer = clock.after(SETTLE_MS, late.resolve);
  const all = Promise.all(Array.from(ledgers, ({ settled }) => settled ?? Promise.resolve()));
  await Promise.race([all, late.promise]);
}
