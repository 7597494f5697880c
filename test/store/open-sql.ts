/** Opens the tables of a data folder, as a gateway does. */
import type { TestContext } from "node:test";
import type { Clock, Sql } from "../../src/plugin.ts";
import { shippedTables } from "../../src/pipeline/load/databases.ts";
import { openSqliteSql, type SqliteSql } from "../../src/store/sql/sqlite-sql.ts";
import { stateFileOf } from "../../src/store/sql/state-file.ts";
import { systemClock } from "../../src/base/clock.ts";

export interface TestSql extends SqliteSql {
  idle(): Promise<void>;
}

/** The file is closed after the test. */
export async function openFolderSql(
  t: Pick<TestContext, "after">,
  folder: string,
  clock: Clock = systemClock,
): Promise<TestSql> {
  const sql = await openSqliteSql(stateFileOf(folder, await shippedTables()), clock);
  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => (closed ??= sql.close());
  t.after(close);
  let running = 0;
  const count = async <T>(work: Promise<T>): Promise<T> => {
    running++;
    try {
      return await work;
    } finally {
      running--;
    }
  };
  return {
    query: (...args) => count(sql.query(...args)),
    transaction: (work) => count(sql.transaction(work)),
    close,
    async idle() {
      await new Promise(setImmediate);
      while (running > 0) await new Promise(setImmediate);
    },
  };
}

/** Runs `work` on the tables of a data folder, which another process may use at the same time. */
export async function withFolderSql<T>(folder: string, work: (sql: Sql) => Promise<T>): Promise<T> {
  const sql = await openSqliteSql(stateFileOf(folder, await shippedTables()), systemClock);
  try {
    return await work(sql);
  } finally {
    await sql.close();
  }
}
