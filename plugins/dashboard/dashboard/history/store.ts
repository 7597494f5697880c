/** A store of the health over time. It is implemented on SQLite and on PostgreSQL. */
import type { Awaitable } from "sluice-gateway/plugin";

export type Span = "minute" | "hour";

export const spanMs: Readonly<Record<Span, number>> = { minute: 60_000, hour: 3_600_000 };
/** Time for which rows are kept. */
export const keepMs: Readonly<Record<Span, number>> = {
  minute: 25 * 3_600_000,
  hour: 31 * 24 * 3_600_000,
};

/** The sum of one gateway in one minute or hour. `at`: its start in milliseconds since 1970. */
export interface HistoryRow {
  readonly span: Span;
  readonly at: number;
  readonly kind: string;
  readonly name: string;
  /** An `ExchangeSum` as JSON. */
  readonly sum: string;
}

export interface HistoryQuery {
  readonly span: Span;
  readonly kind: string;
  /** All names if undefined. */
  readonly name?: string | undefined;
  /** Milliseconds since 1970. `from` is inclusive, and `to` is exclusive. */
  readonly from: number;
  readonly to: number;
}

/** Every method fails with an Error if the store cannot be used. */
export interface HistoryStore {
  /** Stores rows of this start of this gateway. A row replaces the one with the same span, time, kind and name. */
  write(rows: readonly HistoryRow[]): Awaitable<void>;
  /** Deletes the rows that are older than `keepMs`. */
  prune(now: number): Awaitable<void>;
  /** Returns the rows of all gateways, in no particular order. */
  read(query: HistoryQuery): Awaitable<readonly HistoryRow[]>;
  close(): void;
}
