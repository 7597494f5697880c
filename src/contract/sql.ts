/** Tables in the store of the gateway. Implemented in src/store/sql. */

/** A row of a result. A value is a text, a number, bytes or null. */
export type SqlRow = Readonly<Record<string, unknown>>;

/**
 * Runs one statement. `text`: SQL that is valid in SQLite and in PostgreSQL, with the parameters `$1`, `$2` … and with
 * `sluice.` before the names of tables. `sluice.now_ms()` is the time of the store in milliseconds since 1970.
 * Integers are numbers of at most 2^53 - 1; a larger one fails its statement.
 *
 * Rejects with a StoreError. The statement may have been committed even then.
 */
export type RunSql = (text: string, values?: readonly unknown[]) => Promise<readonly SqlRow[]>;

/**
 * The tables of this gateway: in the data folder, or in PostgreSQL, where other gateways share them, if
 * `store.postgres` is set. A query has the same text for both.
 */
export interface Sql {
  /** Runs one statement in a transaction of its own. Its changes are durable when the promise resolves. */
  readonly query: RunSql;
  /**
   * Runs the statements of `work` in one transaction, and commits it when `work` has succeeded. The transaction fails if
   * one of the statements fails. `work` must not wait for anything but its own statements, because other transactions wait for it. Rejects
   * with a StoreError, or with the error of `work`; then nothing is committed, unless the answer to the commit was lost.
   */
  transaction<T>(work: (run: RunSql) => Promise<T>): Promise<T>;
}
