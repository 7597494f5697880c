/**
 * Transactions of the accounts in PostgreSQL. Joins statements to them, and finds out the outcome of a commit whose
 * answer was lost.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { Awaitable, Clock, Postgres, RunStatement } from "sluice-gateway/plugin";
import { explainPostgres, postgresError, PostgresFailure } from "sluice-gateway/postgres";
import { oneOf, text } from "sluice-gateway/store";
import { changesLock } from "./schema.ts";

export interface PostgresTransactionsDeps {
  readonly database: Postgres;
  readonly clock: Pick<Clock, "after" | "monotonic">;
  /** Called after every commit, before the result is returned. Must not fail. */
  readonly committed: () => Awaitable<void>;
}

interface OpenTransaction {
  state: "open" | "ended" | "expired";
  /** Error of the first statement that failed. PostgreSQL then rolls back at COMMIT without an error. */
  failure: unknown;
  run: RunStatement;
  /** Set when the transaction holds the lock of changes. */
  locked: Promise<unknown> | undefined;
  /** Set when all work is done, so that only the commit is missing. */
  isComplete: boolean;
  /** Id of the transaction on the server. */
  id: string;
}

const lane = "accounts";
/** Maximum duration of a transaction. Changes of all replicas wait for each other. */
const maxTransactionMs = 10_000;
/** Maximum wait for the transactions of others. */
const lockWaitMs = 2_000;
/** Time for which the outcome of a commit is queried. */
const outcomeMs = 5_000;
const outcomeEveryMs = 100;

/**
 * These settings apply until the end of the transaction. The server ends a transaction whose gateway has stopped or is
 * disconnected, so that others do not wait for its lock.
 */
const prepare = `SELECT pg_current_xact_id()::text AS id, set_config('lock_timeout', '${lockWaitMs}', true),
  set_config('idle_in_transaction_session_timeout', '${maxTransactionMs + 2_000}', true)`;

export class PostgresTransactions {
  readonly #deps: PostgresTransactionsDeps;
  readonly #context = new AsyncLocalStorage<OpenTransaction>();

  constructor(deps: PostgresTransactionsDeps) {
    this.#deps = deps;
  }

  /**
   * Runs `work` in a transaction, or as part of the open one. Rejects with the error of `work`, or with a StoreError.
   */
  run<T>(work: () => Awaitable<T>): Promise<T> {
    return this.#joined(() => work());
  }

  /** Changes the accounts. Changes run one after the other, so `work` sees all that were committed before. */
  write<T>(work: (run: RunStatement) => Promise<T>): Promise<T> {
    return this.#joined(async (open) => {
      open.locked ??= open.run("SELECT pg_advisory_xact_lock($1)", [changesLock]);
      await open.locked;
      return work(open.run);
    });
  }

  /** Runs one statement, in the open transaction or on its own. Rejects with a StoreError. */
  async query(statement: string, values: readonly unknown[] = []): ReturnType<RunStatement> {
    const { database } = this.#deps;
    const current = this.#context.getStore();
    try {
      if (current?.state === "open") return await current.run(statement, values);
      return await database.query(lane, statement, values);
    } catch (error) {
      throw explainPostgres(error, database.place);
    }
  }

  async #joined<T>(work: (open: OpenTransaction) => Awaitable<T>): Promise<T> {
    const current = this.#context.getStore();
    if (current?.state === "expired") throw this.#tooLong();
    return current?.state === "open" ? work(current) : this.#begin(work);
  }

  async #begin<T>(work: (open: OpenTransaction) => Awaitable<T>): Promise<T> {
    const { database, committed } = this.#deps;
    const open: OpenTransaction = {
      state: "open",
      failure: undefined,
      run: () => Promise.resolve([]),
      locked: undefined,
      isComplete: false,
      id: "",
    };
    let result: { readonly value: T } | undefined;
    try {
      await database.transaction(lane, async (run) => {
        open.run = (statement, values) => this.#checked(open, run(statement, values));
        const [row] = await open.run(prepare);
        open.id = text(row ?? {}, "id");
        result = { value: await this.#limited(open, work) };
        if (open.failure !== undefined) throw open.failure;
        open.isComplete = true;
      });
    } catch (error) {
      const isUnknown = open.isComplete && error instanceof PostgresFailure && !error.isRefused;
      const isCommitted = isUnknown && (await this.#isCommitted(open.id));
      if (!isCommitted) {
        throw error instanceof PostgresFailure ? explainPostgres(error, database.place) : error;
      }
    }
    await committed();
    if (result === undefined) throw new Error("a transaction was committed without a result");
    return result.value;
  }

  /** Runs the work, for at most `maxTransactionMs`. */
  async #limited<T>(
    open: OpenTransaction,
    work: (open: OpenTransaction) => Awaitable<T>,
  ): Promise<T> {
    const limit = Promise.withResolvers<never>();
    using _timer = this.#deps.clock.after(maxTransactionMs, () => {
      open.state = "expired";
      limit.reject(this.#tooLong());
    });
    try {
      const worked = this.#context.run(open, async () => work(open));
      return await Promise.race([worked, limit.promise]);
    } finally {
      if (open.state === "open") open.state = "ended";
    }
  }

  async #checked<T>(open: OpenTransaction, statement: Promise<T>): Promise<T> {
    try {
      return await statement;
    } catch (error) {
      open.failure ??= error;
      throw explainPostgres(error, this.#deps.database.place);
    }
  }

  /** Finds out whether a transaction was committed whose answer was lost. Rejects with StoreError if it cannot. */
  async #isCommitted(id: string): Promise<boolean> {
    const { database, clock } = this.#deps;
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
      "Look at the change with `sluice audit` before you repeat it.",
    );
  }

  #tooLong(): Error {
    return postgresError(
      "SLUICE_STORE_BUSY",
      `a transaction of the accounts took longer than ${maxTransactionMs} ms and was rolled back`,
      "Report this as a bug, with the log lines before it.",
    );
  }
}
