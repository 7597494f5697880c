/** The store of rows. Implemented in src/store/sql. */

/** A row of an answer. A column is a text, a number, bytes or null. */
export type SqlRow = Readonly<Record<string, unknown>>;

/**
 * Runs one statement. `text`: SQL that SQLite and PostgreSQL both understand, with the parameters `$1`, `$2` … and with
 * `sluice.` before the names of tables. `sluice.now_ms()` is the time of the store in milliseconds since 1970.
 * Integers are numbers of at most 2^53 - 1; a larger one fails its statement.
 *
 * Rejects with a StoreError. The statement may have been committed even then.
 */
export type RunSql = (text: string, values?: readonly unknown[]) => Promise<readonly SqlRow[]>;

/**
 * The tables of this gateway: in the data folder, or in PostgreSQL, where other gateways share them, if
 * `store.postgres` is set. There is one text per query for both.
 */
export interface Sql {
  /** Runs one statement in a transaction of its own. It is durable when this has resolved. */
  readonly query: RunSql;
  /**
   * Runs statements in one transaction, and commits it when `work` has succeeded. It fails if one of the statements
   * fails. `work` must not wait for anything but its own statements, because other transactions wait for it. Rejects
   * with a StoreError, or with the error of `work`; then nothing is committed, unless the answer to the commit was lost.
   */
  transaction<T>(work: (run: RunSql) => Promise<T>): Promise<T>;
}
