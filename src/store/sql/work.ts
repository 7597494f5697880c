import type { RunSql, Sql } from "../../contract/sql.ts";

/**
 * Runs the work of a transaction. After a statement that has failed, all others fail and so does the work, even if it
 * handles the error: PostgreSQL would accept the COMMIT and roll back.
 */
export async function runWork<T>(run: RunSql, work: (run: RunSql) => Promise<T>): Promise<T> {
  const failures: unknown[] = [];
  const result = await work(async (text, values) => {
    if (failures.length > 0) throw failures[0];
    try {
      return await run(text, values);
    } catch (error) {
      failures.push(error);
      throw error;
    }
  });
  if (failures.length > 0) throw failures[0];
  return result;
}

/** Tables that are always empty, for a dry run, which must not change the store. */
export const noSql: Sql = {
  query: () => Promise.resolve([]),
  transaction: (work) => work(noSql.query),
};
