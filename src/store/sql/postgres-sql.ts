/** `Sql` on PostgreSQL. Finds out the outcome of a commit whose answer was lost. */
import { systemClock } from "../../base/clock.ts";
import type { Clock } from "../../contract/clock.ts";
import type { RunSql, Sql } from "../../contract/sql.ts";
import type { Postgres } from "../../contract/store.ts";
import { explainPostgres, postgresError, PostgresFailure } from "../postgres/failure.ts";
import { oneOf, text } from "../row.ts";
import { runWork } from "./work.ts";

/** Maximum duration of a transaction, because others may wait for its locks. */
const maxTransactionMs = 10_000;
const lockWaitMs = 2_000;
const outcomeMs = 5_000;
const outcomeEveryMs = 100;

/**
 * The server ends a transaction whose gateway has stopped or is disconnected, so that others do not wait for its locks.
 */
const prepare = `SELECT pg_current_xact_id()::text AS id, set_config('lock_timeout', '${lockWaitMs}', true),
  set_config('idle_in_transaction_session_timeout', '${maxTransactionMs + 2_000}', true)`;

export function postgresSql(
  database: Postgres,
  lane: string,
  clock: Pick<Clock, "after" | "monotonic"> = systemClock,
): Sql {
  const explained = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work;
    } catch (error) {
      throw error instanceof PostgresFailure ? explainPostgres(error, database.place) : error;
    }
  };
  return {
    query: (statement, values) => explained(database.query(lane, statement, values)),
    transaction: <T>(work: (run: RunSql) => Promise<T>) =>
      explained(runTransaction({ database, lane, clock, explained, work })),
  };
}

interface TransactionOptions<T> {
  readonly database: Postgres;
  readonly lane: string;
  readonly clock: Pick<Clock, "after" | "monotonic">;
  readonly explained: <R>(work: Promise<R>) => Promise<R>;
  readonly work: (run: RunSql) => Promise<T>;
}

async function runTransaction<T>(options: TransactionOptions<T>): Promise<T> {
  const { database, lane, clock, explained, work } = options;
  let id = "";
  /** Set when all work is done, so that only the commit is missing. */
  let done: { readonly result: T } | undefined;
  try {
    return await database.transaction(lane, async (run) => {
      const checked: RunSql = (statement, values) => explained(run(statement, values));
      const [row] = await checked(prepare);
      id = text(row ?? {}, "id");
      const result = await runWork(checked, work, { clock, ms: maxTransactionMs, late });
      done = { result };
      return result;
    });
  } catch (error) {
    const isUnknown = error instanceof PostgresFailure && !error.isRefused;
    if (done !== undefined && isUnknown && (await isCommitted(options, id))) return done.result;
    throw error;
  }
}

const late = (): Error =>
  postgresError(
    "SLUICE_STORE_BUSY",
    `a transaction took longer than ${maxTransactionMs} ms and was rolled back`,
    "Report this as a bug, with the log lines before it.",
  );

/** Finds out whether a transaction was committed whose answer was lost. Rejects with StoreError if it cannot. */
async function isCommitted(
  { database, lane, clock }: Pick<TransactionOptions<unknown>, "database" | "lane" | "clock">,
  id: string,
): Promise<boolean> {
  const end = clock.monotonic() + outcomeMs;
  const ask = "SELECT coalesce(pg_xact_status($1::xid8), 'forgotten') AS status";
  const statuses = ["committed", "aborted", "in progress", "forgotten"] as const;
  while (clock.monotonic() < end) {
    try {
      const [row] = await database.query(lane, ask, [id]);
      const status = oneOf(row ?? {}, "status", statuses);
      if (status === "committed" || status === "aborted") return status === "committed";
      if (status === "forgotten") break;
    } catch {
      // The database still cannot be reached.
    }
    await new Promise<void>((resolve) => void clock.after(outcomeEveryMs, resolve));
  }
  throw postgresError(
    "SLUICE_STORE_UNREACHABLE",
    `the PostgreSQL database at ${database.place} did not say whether a change was committed`,
    "Find out whether the change was made, for example with `sluice audit`, before you repeat it.",
  );
}
