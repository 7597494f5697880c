/**
 * Limits request bodies that are still arriving, so that slow clients cannot hold memory and connections indefinitely
 * (decisions.md section 13): the minimum rate of a body, and the memory of unfinished bodies per caller and in total.
 * One timer serves all bodies.
 */
import { refuse } from "../errors.ts";
import type { BodyCaller, BodyWatch, LiveExchange } from "../pipeline/run/exchange.ts";
import {
  addressKey,
  type Clock,
  type Counter,
  type Gauge,
  type Metrics,
  type Reply,
} from "../plugin.ts";
import { arrivalGraceMs, arrivalWindowMs, minArrivalBytes } from "./arrival-rate.ts";
import { LinkedList } from "./linked-list.ts";

/** Number of unfinished bodies that any caller may have. A key may have its burst (twice its rate) if that is more. */
const minBodiesPerCaller = 4;
/** The share of all kept bytes that one caller may hold. */
const callerShare = 0.5;

export interface BodyWatchOptions {
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** Maximum pause of a body in milliseconds. */
  readonly idleMs: number;
  /** Maximum number of bytes that unfinished bodies may hold together. */
  readonly maxBytes: number;
  timedOut(x: LiveExchange): void;
  refused(x: LiveExchange, reply: Reply): void;
}

const headers = ["connection", "close"];
const callerFull = refuse("GATEWAY_RATE_LIMITED", { headers });
const allFull = refuse("GATEWAY_SERVICE_UNAVAILABLE", {
  message: "too many unfinished request bodies",
  headers,
});

export function createBodyWatch(options: BodyWatchOptions): BodyWatch & Disposable {
  return new Watch(options);
}

class Watch implements BodyWatch, Disposable {
  readonly #options: BodyWatchOptions;
  /** Bodies that are buffered as a whole, and bodies that are streamed. */
  readonly #kept = new LinkedList<LiveExchange>();
  readonly #streamed = new LinkedList<LiveExchange>();
  readonly #callers = new Map<string, BodyCaller>();
  readonly #heldBytes: Gauge;
  readonly #refusals: { readonly slow: Counter; readonly caller: Counter; readonly all: Counter };
  readonly #timer: Disposable;
  #bytes = 0;

  constructor(options: BodyWatchOptions) {
    const { clock, metrics, idleMs } = options;
    this.#options = options;
    this.#heldBytes = metrics
      .gauge("sluice_unfinished_body_bytes", "Bytes of request bodies that are still arriving.")
      .with({});
    this.#heldBytes.set(0);
    const refusals = metrics.counter(
      "sluice_unfinished_body_refusals_total",
      "Request bodies that were refused while they arrived, because they were slow or exceeded the limit per caller or for all callers.",
      ["limit"],
    );
    this.#refusals = {
      slow: refusals.with({ limit: "slow" }),
      caller: refusals.with({ limit: "caller" }),
      all: refusals.with({ limit: "all" }),
    };
    const everyMs = Math.max(10, Math.min(1000, idleMs / 4));
    this.#timer = clock.every(everyMs, () => {
      this.#sweep(this.#kept);
      this.#sweep(this.#streamed);
    });
  }

  admit(x: LiveExchange): Reply | undefined {
    const { id, maxBodies } = callerOf(x);
    let caller = this.#callers.get(id);
    if (caller !== undefined && caller.bodies >= maxBodies) {
      this.#refusals.caller.add(1);
      const reached = { scope: "unfinished-bodies", unit: "requests" } as const;
      return { ...callerFull, reached: { ...reached, used: caller.bodies, limit: maxBodies } };
    }
    if (caller === undefined) {
      caller = { id, bodies: 0, bytes: 0 };
      this.#callers.set(id, caller);
    }
    caller.bodies++;
    x.bodyCaller = caller;
    this.#start(x);
    this.#kept.add(x);
    return undefined;
  }

  addStreamed(x: LiveExchange): void {
    this.#start(x);
    this.#streamed.add(x);
  }

  received(x: LiveExchange, bytes: number): void {
    const caller = x.bodyCaller;
    if (caller === undefined) return;
    x.bodyHeldBytes += bytes;
    caller.bytes += bytes;
    this.#bytes += bytes;
    this.#heldBytes.set(this.#bytes);
    const { maxBytes } = this.#options;
    if (caller.bytes > maxBytes * callerShare) {
      return this.#refuse(x, callerFull, this.#refusals.caller);
    }
    // Refuses the newest bodies first, because older ones are closer to completion.
    for (let newest = this.#kept.youngest; newest !== undefined; newest = this.#kept.youngest) {
      if (this.#bytes <= maxBytes) return;
      this.#refuse(newest, allFull, this.#refusals.all);
    }
  }

  remove(x: LiveExchange): void {
    const caller = x.bodyCaller;
    if (caller === undefined) return this.#streamed.remove(x);
    x.bodyCaller = undefined;
    this.#kept.remove(x);
    caller.bodies--;
    caller.bytes -= x.bodyHeldBytes;
    if (caller.bodies === 0) this.#callers.delete(caller.id);
    this.#bytes -= x.bodyHeldBytes;
    x.bodyHeldBytes = 0;
    this.#heldBytes.set(this.#bytes);
  }

  [Symbol.dispose](): void {
    this.#timer[Symbol.dispose]();
  }

  #start(x: LiveExchange): void {
    const now = this.#options.clock.monotonic();
    const { bytesRead } = x.arrival.req.socket;
    x.bodySeenBytes = bytesRead;
    x.bodyActiveAt = now;
    x.bodyPaceBytes = bytesRead;
    x.bodyPaceAt = now + arrivalGraceMs;
  }

  #refuse(x: LiveExchange, reply: Reply, counter: Counter): void {
    this.remove(x);
    counter.add(1);
    this.#options.refused(x, reply);
  }

  #sweep(watched: LinkedList<LiveExchange>): void {
    const now = this.#options.clock.monotonic();
    for (let x = watched.oldest; x !== undefined;) {
      const next: LiveExchange | undefined = x.behind;
      if (this.#isTooSlow(x, now)) {
        this.remove(x);
        this.#refusals.slow.add(1);
        this.#options.timedOut(x);
      }
      x = next;
    }
  }

  #isTooSlow(x: LiveExchange, now: number): boolean {
    const { req, body } = x.arrival;
    const bytes = req.socket.bytesRead;
    // A paused stream with buffered bytes waits for an upstream, not for the client.
    const isPaused = Buffer.isBuffer(body) || (body.isPaused() && body.readableLength > 0);
    if (isPaused || bytes !== x.bodySeenBytes) {
      x.bodySeenBytes = bytes;
      x.bodyActiveAt = now;
    }
    if (isPaused || bytes - x.bodyPaceBytes >= minArrivalBytes) {
      x.bodyPaceBytes = bytes;
      x.bodyPaceAt = Math.max(now, x.bodyPaceAt);
    }
    return now - x.bodyActiveAt >= this.#options.idleMs || now - x.bodyPaceAt >= arrivalWindowMs;
  }
}

/** Identifies a caller by its key, or else by its address. */
function callerOf(x: LiveExchange): { readonly id: string; readonly maxBodies: number } {
  const principal = x.peek("principal");
  return principal?.kind === "key"
    ? {
        id: principal.key.id,
        maxBodies: Math.max(minBodiesPerCaller, Math.floor(2 * principal.rps)),
      }
    : { id: addressKey(x.request.address), maxBodies: minBodiesPerCaller };
}
