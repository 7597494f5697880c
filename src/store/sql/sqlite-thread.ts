/** The thread that runs the statements of `state.db`, so that the main thread does not wait for the disk. */
import { parentPort, workerData } from "node:worker_threads";
import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";
import type { SqlRow } from "../../contract/sql.ts";
import { explain, type StoreErrorCode } from "../store-error.ts";
import { sqliteText } from "./dialect.ts";
import { openStateFile, type StateFile } from "./state-file.ts";

export interface Statement {
  readonly text: string;
  readonly values: readonly unknown[];
}

/** Statements that run one after the other. The transaction that one batch begins is continued by the next ones. */
export interface Batch {
  readonly now: number;
  /** `read`: every statement is a transaction of its own. */
  readonly mode: "begin" | "continue" | "read";
  readonly statements: readonly Statement[];
  readonly commits: boolean;
}

/** The members of a StoreError, which an error would lose when it is sent to another thread. */
export interface Failure {
  readonly code: StoreErrorCode;
  readonly message: string;
  readonly remedy: string;
}

export type Outcome = { readonly rows: readonly SqlRow[] } | { readonly failure: Failure };

/** The results of the statements of a batch. `failure`: the transaction has ended, and nothing of it is committed. */
export type BatchResult = { readonly outcomes: readonly Outcome[] } | { readonly failure: Failure };

// state-thread.ts starts this thread with a StateFile. A message is a batch, or undefined to end the thread.
const file = workerData as StateFile;
const maxPrepared = 200;

const prepared = new Map<string, StatementSync>();
let now = 0n;

function failureOf(error: unknown): Failure {
  const { code, message, remedy } = explain(error, file.file);
  // A StoreError has a code of this type.
  return { code: code as StoreErrorCode, message, remedy };
}

function prepare(db: DatabaseSync, text: string): StatementSync {
  let statement = prepared.get(text);
  if (statement === undefined) {
    statement = db.prepare(sqliteText(text));
    if (prepared.size >= maxPrepared) prepared.clear();
    prepared.set(text, statement);
  }
  return statement;
}

function run(db: DatabaseSync, { text, values }: Statement): Outcome {
  try {
    // SQLite refuses values of other types.
    return { rows: prepare(db, text).all(...(values as SQLInputValue[])) };
  } catch (error) {
    return { failure: failureOf(error) };
  }
}

function runBatch(db: DatabaseSync, batch: Batch): BatchResult {
  now = BigInt(Math.floor(batch.now));
  try {
    if (batch.mode === "begin") db.exec("BEGIN IMMEDIATE");
    const isTransaction = batch.mode !== "read";
    // The previous batch may have failed after this one was sent.
    if (isTransaction && !db.isTransaction) throw new Error("the transaction has ended");
    const outcomes: Outcome[] = [];
    for (const statement of batch.statements) {
      const outcome = run(db, statement);
      // A full disk and some other failures roll back the whole transaction.
      if (isTransaction && !db.isTransaction && "failure" in outcome) return outcome;
      outcomes.push(outcome);
    }
    if (batch.commits) db.exec("COMMIT");
    return { outcomes };
  } catch (error) {
    const failure = failureOf(error);
    try {
      if (db.isTransaction) db.exec("ROLLBACK");
    } catch {
      // The next BEGIN fails, and says why.
    }
    return { failure };
  }
}

function serve(port: NonNullable<typeof parentPort>): void {
  const answer = (result: BatchResult): void => {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- parentPort is not a window
    port.postMessage(result);
  };
  let db: DatabaseSync;
  try {
    db = openStateFile(file);
    db.function("now_ms", () => now);
  } catch (error) {
    answer({ failure: failureOf(error) });
    return;
  }
  port.on("message", (batch: Batch | undefined) => {
    if (batch !== undefined) return answer(runBatch(db, batch));
    db.close();
    port.close();
  });
  answer({ outcomes: [] });
}

if (parentPort !== null) serve(parentPort);
