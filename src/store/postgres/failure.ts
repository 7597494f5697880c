/** Failures of a PostgreSQL database, without the password of its URL. */
import type { DatabaseFailure } from "../../contract/store.ts";
import { StoreError, type StoreErrorCode } from "../store-error.ts";
import { errorCode } from "../../base/error-code.ts";

export class PostgresFailure extends Error implements DatabaseFailure {
  readonly isRefused: boolean;
  readonly code: string | undefined;

  private constructor(message: string, isRefused: boolean, code: string | undefined) {
    super(message);
    this.name = "PostgresFailure";
    this.isRefused = isRefused;
    this.code = code;
  }

  /** Converts any error of `pg`. The original error is not kept, because it can hold parameters of the statement. */
  static from(error: unknown): PostgresFailure {
    if (error instanceof PostgresFailure) return error;
    const message = messageOf(error);
    const code = errorCode(error);
    // Only errors that the server sent have a severity.
    const isOfServer = error instanceof Error && "severity" in error && code !== undefined;
    return new PostgresFailure(message, isOfServer && !isLost(code), code);
  }
}

/**
 * Whether an SQLSTATE means that the server or PgBouncer ended the connection: class 08 and the shutdown codes of class
 * 57. The outcome of a statement is then unknown.
 */
function isLost(sqlState: string): boolean {
  return sqlState.startsWith("08") || sqlState.startsWith("57P");
}

/** An AggregateError has one error per address that was tried, and no message. */
function messageOf(error: unknown): string {
  const first = error instanceof AggregateError ? (error.errors[0] as unknown) : error;
  return first instanceof Error ? first.message : String(first);
}

export function postgresError(
  code: StoreErrorCode,
  message: string,
  remedy: string,
  cause?: unknown,
): StoreError {
  return new StoreError(code, message, remedy, cause, "postgres");
}

/** Converts a failure at the start or in a command to an error with a remedy. `place`: see `placeOf`. */
export function explainPostgres(error: unknown, place: string): StoreError {
  if (error instanceof StoreError) return error;
  const failure = PostgresFailure.from(error);
  const { code, message } = failure;
  if (code === "28P01" || code === "28000" || code === "3D000") {
    return postgresError(
      "SLUICE_STORE_UNREACHABLE",
      `the PostgreSQL server at ${place} refuses the connection (${message})`,
      "Correct the user, the password or the database name in store.postgres (DATABASE_URL).",
      failure,
    );
  }
  if (code === "42501") {
    return postgresError(
      "SLUICE_STORE_FAILED",
      `the user of store.postgres may not use the tables at ${place} (${message})`,
      "Grant the rights that docs/replicas.md lists, or use the user that ran `sluice store upgrade`.",
      failure,
    );
  }
  // A script of the schema cannot take over the tables now. It states the problem and the remedy, each in a line.
  const [problem = "", remedy] = message.split("\n");
  if (code === "P0001" && remedy !== undefined) {
    return postgresError("SLUICE_STORE_IN_USE", problem, remedy, failure);
  }
  if (failure.isRefused) {
    return postgresError(
      "SLUICE_STORE_FAILED",
      `cannot use the PostgreSQL database at ${place} (${message})`,
      "Check the log of PostgreSQL.",
      failure,
    );
  }
  return postgresError(
    "SLUICE_STORE_UNREACHABLE",
    `cannot reach the PostgreSQL database at ${place} (${message})`,
    "Start the database, or correct store.postgres (DATABASE_URL). Remove the setting to run without a database.",
    failure,
  );
}

/** Returns host, port and database of the URL, without its user and password. */
export function placeOf(url: string): string {
  const { host, pathname } = new URL(url);
  return `${host}${pathname}`;
}
