/**
 * Slow clients cannot hold memory and connections indefinitely (decisions.md section 13): bodies have a minimum rate,
 * and limits on their memory per caller and in total. The memory of a whole body counts until its exchange releases it.
 * One timer serves all bodies.
 */
import { refuse } from "../base/errors.ts";
import type { LiveExchange } from "../pipeline/run/exchange.ts";
import type { ArrivingBody, BodyWatch } from "../pipeline/run/runtime.ts";
import type { Clock, Counter, Gauge, Metrics, Reply } from "../plugin.ts";
import { arrivalGraceMs, arrivalWindowMs, minArrivalBytes } from "./arrival-rate.ts";
import { LinkedList, type Linked } from "../base/linked-list.ts";
import type { HeldBytes, HeldPart } from "../memory/held-bytes.ts";

/** Number of unfinished bodies that any caller may have. A key may have its burst (twice its rate) if that is more. */
const minBodiesPerCaller = 4;

export interface BodyWatchOptions {
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly idleMs: number;
  readonly held: HeldBytes;
  timedOut(x: LiveExchange): void;
  refused(x: LiveExchange, reply: Reply): void;
}

const headers = ["connection", "close"];
const callerFull = refuse("GATEWAY_RATE_LIMITED", { headers });
const allFull = refuse("GATEWAY_SERVICE_UNAVAILABLE", {
  message: "too many unfinished request bodies",
  headers,
});

export class LiveBodyWatch implements BodyWatch<LiveExchange>, Disposable {
  readonly #options: BodyWatchOptions;
  readonly #kept = new LinkedList<WatchedBody>();
  readonly #streamed = new LinkedList<WatchedBody>();
  readonly #bytes: Gauge;
  readonly #refusals: { readonly slow: Counter; readonly caller: Counter; readonly all: Counter };
  readonly #timer: Disposable;

  constructor(options: BodyWatchOptions) {
    const { clock, metrics, idleMs } = options;
    this.#options = options;
    this.#bytes = metrics
      .gauge("sluice_unfinished_body_bytes", "Bytes of request bodies that are still arriving.")
      .with({});
    this.#bytes.set(0);
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

  admit(x: LiveExchange): ArrivingBody | Reply {
    const { held } = this.#options;
    const id = x.callerId;
    const maxBodies = Math.max(minBodiesPerCaller, Math.floor(x.facts.caller?.burst ?? 0));
    const used = held.countOf(id, "body");
    if (used >= maxBodies) {
      this.#refusals.caller.add(1);
      const reached = { scope: "unfinished-bodies", unit: "requests" } as const;
      return { ...callerFull, reached: { ...reached, used, limit: maxBodies } };
    }
    const body = new WatchedBody(this, x, this.#options.clock.monotonic());
    body.part = held.hold(
      id,
      "body",
      () => this.#displaced(body),
      () => !body.isWhole || x.canBeCut,
    );
    this.#kept.add(body);
    return body;
  }

  admitStreamed(x: LiveExchange): ArrivingBody {
    const body = new WatchedBody(this, x, this.#options.clock.monotonic());
    this.#streamed.add(body);
    return body;
  }

  received(body: WatchedBody, bytes: number): void {
    const { part } = body;
    if (part === undefined) return;
    const exceeded = part.exceeded(part.bytes + bytes);
    this.#bytes.set(this.#options.held.bytesOf("body"));
    if (exceeded === "owner") this.#refuse(body, callerFull, this.#refusals.caller);
    else if (exceeded === "total") this.#refuse(body, allFull, this.#refusals.all);
  }

  arrived(body: WatchedBody): void {
    body.isWhole = true;
    this.#kept.remove(body);
    body.part?.become("request");
    this.#bytes.set(this.#options.held.bytesOf("body"));
  }

  close(body: WatchedBody): void {
    const { part } = body;
    if (part === undefined) return this.#streamed.remove(body);
    body.part = undefined;
    this.#kept.remove(body);
    part[Symbol.dispose]();
    this.#bytes.set(this.#options.held.bytesOf("body"));
  }

  [Symbol.dispose](): void {
    this.#timer[Symbol.dispose]();
  }

  /** The body makes room for another caller. */
  #displaced(body: WatchedBody): void {
    if (!body.isWhole) return this.#refuse(body, allFull, this.#refusals.all);
    body.close();
    body.exchange.cutOff("timedOut");
  }

  #refuse(body: WatchedBody, reply: Reply, counter: Counter): void {
    body.close();
    counter.add(1);
    this.#options.refused(body.exchange, reply);
  }

  #sweep(bodies: LinkedList<WatchedBody>): void {
    const now = this.#options.clock.monotonic();
    for (let body = bodies.oldest; body !== undefined;) {
      const next: WatchedBody | undefined = body.next;
      if (body.isTooSlow(now, this.#options.idleMs)) {
        body.close();
        this.#refusals.slow.add(1);
        this.#options.timedOut(body.exchange);
      }
      body = next;
    }
  }
}

class WatchedBody implements ArrivingBody, Linked<WatchedBody> {
  readonly isWatched = true;
  readonly exchange: LiveExchange;
  /** Undefined if the body is streamed, or the watch has ended. */
  part: HeldPart | undefined = undefined;
  isWhole = false;
  previous: WatchedBody | undefined = undefined;
  next: WatchedBody | undefined = undefined;
  readonly #watch: LiveBodyWatch;
  /** Bytes that the connection had received at the last sweep, and the monotonic time at which they last increased. */
  #seenBytes: number;
  #activeAt: number;
  /** Bytes that the connection had received when the body last proved fast enough, and the monotonic time. */
  #paceBytes: number;
  #paceAt: number;

  constructor(watch: LiveBodyWatch, x: LiveExchange, now: number) {
    this.#watch = watch;
    this.exchange = x;
    const { bytesRead } = x.arrival.req.socket;
    this.#seenBytes = bytesRead;
    this.#activeAt = now;
    this.#paceBytes = bytesRead;
    this.#paceAt = now + arrivalGraceMs;
  }

  received(bytes: number): void {
    this.#watch.received(this, bytes);
  }

  arrived(): void {
    this.#watch.arrived(this);
  }

  resize(bytes: number): void {
    this.part?.resize(bytes);
  }

  close(): void {
    this.#watch.close(this);
  }

  isTooSlow(now: number, idleMs: number): boolean {
    const { req, body } = this.exchange.arrival;
    const bytes = req.socket.bytesRead;
    // A paused stream with buffered bytes waits for an upstream, not for the client.
    const isPaused = Buffer.isBuffer(body) || (body.isPaused() && body.readableLength > 0);
    if (isPaused || bytes !== this.#seenBytes) {
      this.#seenBytes = bytes;
      this.#activeAt = now;
    }
    if (isPaused || bytes - this.#paceBytes >= minArrivalBytes) {
      this.#paceBytes = bytes;
      this.#paceAt = Math.max(now, this.#paceAt);
    }
    return now - this.#activeAt >= idleMs || now - this.#paceAt >= arrivalWindowMs;
  }
}
