import type { Clock } from "../../contract/clock.ts";
import type { RunSql, Sql } from "../../contract/sql.ts";

/** The time limit of a transaction, because others wait for it. `late`: the error after `ms` milliseconds. */
interface WorkLimit {
  readonly clock: Pick<Clock, "after">;
  readonly ms: number;
  readonly late: () => Error;
}

/** Runs the work of a transaction. Rejects when its time limit expires; the work continues. */
export async function runWork<T>(
  run: RunSql,
  work: (run: RunSql) => Promise<T>,
  { clock, ms, late }: WorkLimit,
): Promise<T> {
  const { promise: timeout, reject } = Promise.withResolvers<never>();
  using _limit = clock.after(ms, () => reject(late()));
  return await Promise.race([failWithStatements(run, work), timeout]);
}

/**
 * After a statement that has failed, all others fail and so does the work, even if it handles the error: PostgreSQL would
 * accept the COMMIT and roll back.
 */
async function failWithStatements<T>(run: RunSql, work: (run: RunSql) => Promise<T>): Promise<T> {
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
