/** Ends exchanges whose client stopped sending in the middle of a body. One timer for all of them. */
import type { BodyWatch, LiveExchange } from "../pipeline/exchange.ts";
import type { Clock } from "../plugin.ts";

export function createBodyWatch(
  clock: Clock,
  idleMs: number,
  timedOut: (x: LiveExchange) => void,
): BodyWatch & Disposable {
  const watched = new Set<LiveExchange>();
  const sweep = (): void => {
    const now = clock.monotonic();
    for (const x of watched) {
      const { req } = x.arrival;
      const bytes = req.socket.bytesRead;
      // A paused stream waits for an upstream, not for the client.
      if (bytes !== x.bodySeenBytes || req.isPaused()) {
        x.bodySeenBytes = bytes;
        x.bodyActiveAt = now;
      } else if (now - x.bodyActiveAt >= idleMs) {
        watched.delete(x);
        timedOut(x);
      }
    }
  };
  const timer = clock.every(Math.max(10, Math.min(1000, idleMs / 4)), sweep);
  return {
    add: (x) => void watched.add(x),
    remove: (x) => void watched.delete(x),
    [Symbol.dispose]: () => timer[Symbol.dispose](),
  };
}
