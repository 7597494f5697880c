/**
 * Adds up the exchanges of each minute and hour in memory, and stores the sums once per minute and at the end. A crash
 * loses at most the last minute.
 */
import type { Clock, Log, SettledExchange } from "sluice-gateway/plugin";
import {
  spanMs,
  type HistoryQuery,
  type HistoryRow,
  type HistoryStore,
  type Span,
} from "./store.ts";
import { namesOf, RunningSums, type Sums } from "./sums.ts";

export interface RecorderDeps {
  readonly store: HistoryStore;
  readonly clock: Clock;
  readonly log: Log;
}

const everyMs = 60_000;
/** The clock may go back by less, for example when it is synchronized. */
const maxBackMs = 60_000;
/** Maximum number of minutes and of hours that wait in memory while the store cannot be written. */
const maxPending = 120;

const spans = Object.keys(spanMs) as Span[];

export class HistoryRecorder {
  readonly #deps: RecorderDeps;
  /** The sums of periods that have not ended or are not stored, by the start of the period. */
  readonly #pending: Readonly<Record<Span, Map<number, Sums>>> = {
    minute: new Map(),
    hour: new Map(),
  };
  /** The minute of the last exchange. Its counts are not in `#pending` yet. */
  #running = new RunningSums(0);
  readonly #timer: Disposable;
  #writing: Promise<void> = Promise.resolve();
  #failed = false;
  /** Milliseconds since 1970. */
  #writtenAt = 0;

  constructor(deps: RecorderDeps) {
    this.#deps = deps;
    this.#timer = deps.clock.every(everyMs, () => void this.flush());
  }

  settled(exchange: SettledExchange): void {
    // Periods that ended before the last write are stored, and may be deleted from memory.
    const endedAt = Math.max(exchange.arrivedAt + exchange.ms, this.#writtenAt);
    const minute = startOf("minute", endedAt);
    if (minute !== this.#running.at) this.#passOn(minute);
    this.#running.add(exchange);
  }

  /** The rows of other gateways may be a minute old. Rejects if the store cannot be read. */
  async read(query: HistoryQuery): Promise<readonly HistoryRow[]> {
    await this.flush();
    return this.#deps.store.read(query);
  }

  /** Stores the sums as soon as the running write has ended. Never rejects. */
  flush(): Promise<void> {
    this.#writing = this.#writing.then(() => this.#write());
    return this.#writing;
  }

  async close(): Promise<void> {
    this.#timer[Symbol.dispose]();
    await this.flush();
  }

  #passOn(minute: number): void {
    const { at } = this.#running;
    for (const span of spans) {
      const pending = this.#pending[span];
      const start = startOf(span, at);
      const sums: Sums = pending.get(start) ?? new Map();
      this.#running.addTo(sums);
      if (sums.size > 0) pending.set(start, sums);
    }
    this.#running = new RunningSums(minute);
  }

  async #write(): Promise<void> {
    const { store, clock, log } = this.#deps;
    const now = clock.now();
    const isSetBack = now < this.#writtenAt - maxBackMs;
    this.#writtenAt = Math.max(this.#writtenAt, now);
    this.#passOn(startOf("minute", now));
    const rows: HistoryRow[] = [];
    for (const span of spans) {
      for (const [at, sums] of this.#pending[span]) {
        for (const [key, sum] of sums) {
          const [kind, name] = namesOf(key);
          rows.push({ span, at, kind, name, sum: JSON.stringify(sum) });
        }
      }
    }
    try {
      if (rows.length > 0) await store.write(rows);
      if (isSetBack) this.#startAgain(now);
      if (rows.length === 0) return;
      this.#forgetPast(now);
      await store.prune(now);
      this.#failed = false;
    } catch (error) {
      if (!this.#failed)
        log.error({ err: error }, "health over time: cannot store the last minutes");
      this.#failed = true;
      for (const span of spans) {
        const pending = this.#pending[span];
        for (const at of pending.keys()) if (pending.size > maxPending) pending.delete(at);
      }
    }
  }

  /** The clock ran ahead and was set back. Otherwise all exchanges would count at its old time until it catches up. */
  #startAgain(now: number): void {
    for (const span of spans) this.#pending[span].clear();
    this.#deps.store.startAgain();
    this.#writtenAt = now;
  }

  /** An exchange that ends later counts in the next period. */
  #forgetPast(now: number): void {
    for (const span of spans) {
      const current = startOf(span, now);
      for (const at of this.#pending[span].keys()) {
        if (at < current) this.#pending[span].delete(at);
      }
    }
  }
}

function startOf(span: Span, time: number): number {
  return Math.floor(time / spanMs[span]) * spanMs[span];
}
