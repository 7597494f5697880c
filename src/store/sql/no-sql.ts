import type { Sql } from "../../contract/sql.ts";

/** Tables that are always empty, for a dry run, which must not change the store. */
export const noSql: Sql = {
  query: () => Promise.resolve([]),
  transaction: (work) => work(noSql.query),
};
