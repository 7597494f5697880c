/** What transactions have in common in both stores. */
import type { RunSql } from "../../contract/sql.ts";

/**
 * Runs the work of a transaction. After a statement that has failed, all others fail and so does the work, even if it
 * handles the error: PostgreSQL would accept the COMMIT and roll back.
 */
export async function runWork<T>(run: RunSql, work: (run: RunSql) => Promise<T>): Promise<T> {
  let failure: { readonly error: unknown } | undefined;
  const result = await work(async (text, values) => {
    if (failure !== undefined) throw failure.error;
    try {
      return await run(text, values);
    } catch (error) {
      failure ??= { error };
      throw error;
    }
  });
  // TypeScript does not see the assignment in the function above.
  const failed = failure as { readonly error: unknown } | undefined;
  if (failed !== undefined) throw failed.error;
  return result;
}
