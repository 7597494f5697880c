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
import { addExchange, namesOf, type Sums } from "./sums.ts";

export interface RecorderDeps {
  readonly store: HistoryStore;
  readonly clock: Clock;
  readonly log: Log;
}

const everyMs = 60_000;
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
  /** The period of each span that the last exchange was added to. */
  readonly #current: Partial<Record<Span, { readonly at: number; readonly sums: Sums }>> = {};
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
    // Periods that end before the last write are stored, and may be forgotten.
    const endedAt = Math.max(exchange.arrivedAt + exchange.ms, this.#writtenAt);
    for (const span of spans) addExchange(this.#sumsAt(span, endedAt), exchange);
  }

  /**
   * Returns the rows of all gateways. Those of other gateways may be a minute old. Rejects if the store cannot be read.
   */
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
    this.#deps.store.close();
  }

  #sumsAt(span: Span, time: number): Sums {
    const at = Math.floor(time / spanMs[span]) * spanMs[span];
    const current = this.#current[span];
    if (current?.at === at) return current.sums;
    const pending = this.#pending[span];
    const sums: Sums = pending.get(at) ?? new Map();
    pending.set(at, sums);
    this.#current[span] = { at, sums };
    return sums;
  }

  async #write(): Promise<void> {
    const { store, clock, log } = this.#deps;
    const now = clock.now();
    this.#writtenAt = Math.max(this.#writtenAt, now);
    const rows: HistoryRow[] = [];
    for (const span of spans) {
      for (const [at, sums] of this.#pending[span]) {
        for (const [key, sum] of sums) {
          const [kind, name] = namesOf(key);
          rows.push({ span, at, kind, name, sum: JSON.stringify(sum) });
        }
      }
    }
    if (rows.length === 0) return;
    try {
      await store.write(rows);
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

  /** Forgets the periods that were stored and are over. An exchange that ends later starts the next period. */
  #forgetPast(now: number): void {
    for (const span of spans) {
      const current = Math.floor(now / spanMs[span]) * spanMs[span];
      for (const at of this.#pending[span].keys()) {
        if (at >= current) continue;
        this.#pending[span].delete(at);
        if (this.#current[span]?.at === at) this.#current[span] = undefined;
      }
    }
  }
}
