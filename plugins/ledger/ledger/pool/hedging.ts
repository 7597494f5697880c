/**
 * Hedged reads: a read that takes longer than 95 % of the calls of its method is also sent to a second node, and the
 * first answer is used. Hedging adds at most 5 % to the calls.
 */
import type { Clock } from "sluice-gateway/plugin";
import type { PooledCall } from "./pooled-call.ts";

const percentile = 0.95;
const maxExtraLoad = 0.05;
/** Maximum number of hedges that are saved up for a burst of slow calls. */
const maxSaved = 10;
/** Number of response times that are remembered per method, and the number that is needed before calls are hedged. */
const samples = 256;
const minSamples = 64;
/** The percentile is calculated again after this number of response times. */
const recalculateAfter = 32;
/** Interval in milliseconds at which waiting calls are checked. Also the shortest delay before a hedge. */
const checkMs = 5;

interface MethodTimes {
  readonly recent: Float64Array;
  count: number;
  /** Milliseconds. Infinity until enough calls were answered. */
  delayMs: number;
  waiting: PooledCall[];
}

export class Hedging {
  readonly #clock: Clock;
  readonly #hedge: (call: PooledCall) => boolean;
  readonly #methods = new Map<string, MethodTimes>();
  #saved = 0;
  #timer: Disposable | undefined;

  /** `hedge`: returns false if there is no second node. */
  constructor(clock: Clock, hedge: (call: PooledCall) => boolean) {
    this.#clock = clock;
    this.#hedge = hedge;
  }

  sent(call: PooledCall): void {
    this.#saved = Math.min(maxSaved, this.#saved + maxExtraLoad);
    const times = this.#timesOf(call.request.method);
    if (times.delayMs === Infinity) return;
    times.waiting.push(call);
    this.#timer ??= this.#clock.after(checkMs, () => this.#check());
  }

  answered(method: string, ms: number): void {
    const times = this.#timesOf(method);
    times.recent[times.count++ % samples] = ms;
    if (times.count < minSamples || times.count % recalculateAfter !== 0) return;
    const sorted = times.recent.slice(0, Math.min(times.count, samples)).sort();
    times.delayMs = Math.max(checkMs, sorted[Math.floor(sorted.length * percentile)] ?? Infinity);
  }

  close(): void {
    this.#timer?.[Symbol.dispose]();
    this.#methods.clear();
  }

  #timesOf(method: string): MethodTimes {
    let times = this.#methods.get(method);
    if (times === undefined) {
      times = { recent: new Float64Array(samples), count: 0, delayMs: Infinity, waiting: [] };
      this.#methods.set(method, times);
    }
    return times;
  }

  #check(): void {
    const now = this.#clock.monotonic();
    let isWaiting = false;
    for (const times of this.#methods.values()) {
      // The calls are in the order in which they were sent, so the first one that is not due ends the search.
      const next = times.waiting.findIndex(
        (call) => !call.isDone && now - call.startedAt < times.delayMs,
      );
      const due = times.waiting.splice(0, next < 0 ? times.waiting.length : next);
      for (const call of due) if (!call.isDone) this.#tryHedge(call);
      isWaiting ||= times.waiting.length > 0;
    }
    this.#timer = isWaiting ? this.#clock.after(checkMs, () => this.#check()) : undefined;
  }

  #tryHedge(call: PooledCall): void {
    if (this.#saved >= 1 && this.#hedge(call)) this.#saved--;
  }
}
