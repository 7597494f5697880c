/** `Sql` on PostgreSQL. */
import type { Sql } from "../../contract/sql.ts";
import type { Postgres } from "../../contract/store.ts";
import { explainPostgres, PostgresFailure } from "../postgres/failure.ts";
import { runWork } from "./work.ts";

/** `lane`: the purpose of the round trips, for metrics. */
export function postgresSql(database: Postgres, lane: string): Sql {
  const explained = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work;
    } catch (error) {
      throw error instanceof PostgresFailure ? explainPostgres(error, database.place) : error;
    }
  };
  return {
    query: (text, values) => explained(database.query(lane, text, values)),
    transaction: (work) =>
      explained(
        database.transaction(lane, (run) =>
          runWork((text, values) => explained(run(text, values)), work),
        ),
      ),
  };
}
