/**
 * The journal thread: reads the published records from the ring, commits them and reports it, in a loop. It blocks only
 * in `Atomics.wait` and in SQLite, so no other code can run in this thread.
 */
import { parentPort, workerData } from "node:worker_threads";
import { explain, type StoreErrorCode } from "sluice-gateway/store";
import { JournalFile } from "./journal-file.ts";
import { chargesPath } from "./journal-schema.ts";
import { RingReader } from "./ring-reader.ts";
import { command, type SharedRing } from "./ring.ts";

export interface JournalWorkerData {
  readonly ring: SharedRing;
  readonly dataDir: string;
  /**
   * Time for which the thread waits for more records after the first one of a group (milliseconds), unless
   * `fullBatchBytes` are waiting.
   */
  readonly batchWaitMs: number;
  readonly fullBatchBytes: number;
  readonly maxPages: number | undefined;
}

/** A message of the thread. Positions are those of the ring, modulo 2^32. */
export type JournalMessage =
  | { readonly kind: "ready"; readonly seq: number }
  /** Everything before `upTo` is on disk. `seq`: number of the last commit. */
  | {
      readonly kind: "committed";
      readonly upTo: number;
      readonly seq: number;
      readonly rows: number;
      readonly ms: number;
    }
  /** Nothing since the last `committed` is on disk. The thread waits for a command. */
  | {
      readonly kind: "failed";
      readonly code: StoreErrorCode;
      readonly message: string;
      readonly remedy: string;
    }
  /** Writing works again. */
  | { readonly kind: "recovered" }
  | { readonly kind: "closed" };

// Only `Journal.open` starts this thread, with exactly this data.
const { ring, dataDir, batchWaitMs, fullBatchBytes, maxPages } = workerData as JournalWorkerData;

/** If a commit has more rows than this, the load is so high that the next commit will have several rows too. */
const busyRows = 3;

const reader = new RingReader(ring);
let file: JournalFile | undefined;
/** Number of rows of the previous commit. */
let lastRows = 0;

try {
  file = JournalFile.open(dataDir, maxPages);
  post({ kind: "ready", seq: file.seq });
  run(file);
  file.checkpoint();
} catch (error) {
  postFailure(error);
} finally {
  file?.close();
  post({ kind: "closed" });
  parentPort?.close();
}

/** Runs until the command `close`. */
function run(journal: JournalFile): void {
  for (;;) {
    reader.waitForWork();
    reader.waitForBatch(batchWaitMs, fullBatchBytes, lastRows > busyRows);
    if (!commit(journal) && !retryUntilWritable(journal)) return;
    if (reader.command === command.close && reader.isEmpty) return;
  }
}

/** Commits all published records. Returns false if they could not be written. */
function commit(journal: JournalFile): boolean {
  const records = reader.take();
  if (records.length === 0) return true;
  try {
    const started = performance.now();
    const { rows, seq } = journal.append(records);
    reader.done();
    lastRows = rows;
    post({ kind: "committed", upTo: reader.head, seq, rows, ms: performance.now() - started });
    return true;
  } catch (error) {
    postFailure(error);
    return false;
  }
}

/** Retries on each command `retry`. Returns true after a successful write, and false after the command `close`. */
function retryUntilWritable(journal: JournalFile): boolean {
  for (;;) {
    const received = reader.waitForCommand();
    journal.skip(reader.discard());
    if (received === command.close) {
      // The last attempt to write the records that an asynchronous journal still holds.
      commit(journal);
      return false;
    }
    try {
      journal.probe();
    } catch (error) {
      postFailure(error);
      continue;
    }
    post({ kind: "recovered" });
    return true;
  }
}

function post(message: JournalMessage): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- parentPort is not a window
  parentPort?.postMessage(message);
}

function postFailure(error: unknown): void {
  const { code, message, remedy } = explain(error, chargesPath(dataDir));
  // Every StoreError is created with one of these codes.
  post({ kind: "failed", code: code as StoreErrorCode, message, remedy });
}
