/** Changes of accounts that one thread makes, in the other threads of the same gateway (`server.threads`). */
import { withinLimit } from "sluice-gateway/internal/toolkit";
import type { Clock, Threads } from "sluice-gateway/plugin";

/** Asks a thread to read the changes. The answer comes when it has applied them. */
const name = "read changes of accounts";
/** As long as another gateway takes. A thread can be blocked, or has just ended. */
const maxWaitMs = 1_000;

/** Resolves when all other threads have applied the changes that were committed before, after a second at most. */
export async function readInOtherThreads(threads: Threads, clock: Clock): Promise<void> {
  const calls: Promise<unknown>[] = [];
  for (let index = 0; index < threads.slots; index++) {
    // A call to an index without a thread fails at once.
    if (index !== threads.index) calls.push(threads.call(name, undefined, index));
  }
  await withinLimit(Promise.allSettled(calls), maxWaitMs, clock);
}

/** Reads the changes when another thread asks. `refresh`: never rejects. */
export function readForOtherThreads(threads: Threads, refresh: () => Promise<void>): Disposable {
  return threads.serve(name, () => refresh());
}
