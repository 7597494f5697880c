/** `host.store.session`. Implemented in src/store/session.ts. */
import type { SqlRow } from "./sql.ts";

/** A part of the store that a gateway looks at. */
export interface Watch {
  /**
   * SQL expressions by name: see `RunSql`. Each is a column of the one row of a look. Their parameters `$1`, `$2` … are
   * `values`. They are read four times per second, so they should only show whether something has changed.
   */
  readonly columns: Readonly<Record<string, string>>;
  /** Common table expressions before the columns, with the same parameters. Only on PostgreSQL. */
  readonly with?: string;
  /** Called once per look. The number of values never changes. */
  readonly values?: () => readonly unknown[];
  /**
   * Called after every look with the columns and with `now`, the time of the store in milliseconds since 1970.
   * `startedAt`: monotonic time at which the look started.
   */
  readonly seen: (row: SqlRow, startedAt: number) => void;
  /** Called after every look that has failed, with a StoreError, and with the error of `seen`. */
  readonly failed: (error: unknown) => void;
}

/**
 * Looks at the store of this gateway every 250 ms, to follow the changes of other gateways and commands. All watches
 * share one statement.
 */
export interface Session {
  /** Adds a watch, until it is disposed of. */
  watch(watch: Watch): Disposable;
  /**
   * Looks now. Resolves after a look that started after this call; calls of the same turn share it. Rejects with a
   * StoreError if it has failed.
   */
  look(): Promise<void>;
}
