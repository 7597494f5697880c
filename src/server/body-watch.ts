/** Ends exchanges whose client stopped sending in the middle of a body. One timer for all of them. */
import type { ExchangeWatch, LiveExchange } from "../pipeline/exchange.ts";
import type { Clock } from "../plugin.ts";
import { LinkedList } from "../stream/linked-list.ts";

export function createBodyWatch(
  clock: Clock,
  idleMs: number,
  timedOut: (x: LiveExchange) => void,
): ExchangeWatch & Disposable {
  const watched = new LinkedList<LiveExchange>();
  const sweep = (): void => {
    const now = clock.monotonic();
    for (let x = watched.oldest; x !== undefined;) {
      const next: LiveExchange | undefined = x.behind;
      const { req, body } = x.arrival;
      const bytes = req.socket.bytesRead;
      // A paused stream waits for an upstream, not for the client.
      if (bytes !== x.bodySeenBytes || Buffer.isBuffer(body) || body.isPaused()) {
        x.bodySeenBytes = bytes;
        x.bodyActiveAt = now;
      } else if (now - x.bodyActiveAt >= idleMs) {
        watched.remove(x);
        timedOut(x);
      }
      x = next;
    }
  };
  const timer = clock.every(Math.max(10, Math.min(1000, idleMs / 4)), sweep);
  return {
    add: (x) => watched.add(x),
    remove: (x) => watched.remove(x),
    [Symbol.dispose]: () => timer[Symbol.dispose](),
  };
}
