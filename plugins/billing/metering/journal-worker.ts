/**
 * The journal's thread: takes what has gathered in the ring, commits it, says so; again and again. It only ever blocks
 * in `Atomics.wait` and in SQLite, so nothing else can run here.
 */
import { parentPort, workerData } from "node:worker_threads";
import { explain, type StoreErrorCode } from "../../../src/store/store-error.ts";
import { JournalFile } from "./journal-file.ts";
import { journalPath } from "./journal-schema.ts";
import { RingReader } from "./ring-reader.ts";
import { command, type SharedRing } from "./ring.ts";

export interface JournalWorkerData {
  readonly ring: SharedRing;
  readonly dataDir: string;
  /** How long the first record of a group waits for company, unless `enoughBytes` wait. */
  readonly pauseMs: number;
  readonly enoughBytes: number;
  readonly maxPages: number | undefined;
}

/** What the thread says. Positions are those of the ring, modulo 2^32. */
export type JournalMessage =
  | { readonly kind: "ready" }
  /** Everything before `upTo` is on disk. */
  | {
      readonly kind: "committed";
      readonly upTo: number;
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

// Started by `openJournal` alone, which gives exactly this.
const { ring, dataDir, pauseMs, enoughBytes, maxPages } = workerData as JournalWorkerData;

/** A commit of more rows than this means a load under which the next one, too, will have company. */
const fewRows = 3;

const reader = new RingReader(ring);
let file: JournalFile | undefined;
/** Rows of the commit before. */
let lastRows = 0;

try {
  file = JournalFile.open(dataDir, maxPages);
  say({ kind: "ready" });
  run(file);
  file.checkpoint();
} catch (error) {
  sayFailed(error);
} finally {
  file?.close();
  say({ kind: "closed" });
  parentPort?.close();
}

/** Until the command `close`. */
function run(journal: JournalFile): void {
  for (;;) {
    reader.waitForWork();
    reader.pause(pauseMs, enoughBytes, lastRows > fewRows);
    if (!commit(journal) && !untilWritable(journal)) return;
    if (reader.command === command.close && reader.isEmpty) return;
  }
}

/** Commits what has gathered; false when it could not. */
function commit(journal: JournalFile): boolean {
  const records = reader.take();
  if (records.length === 0) return true;
  try {
    const started = performance.now();
    const { rows } = journal.append(records);
    reader.done();
    lastRows = rows;
    say({ kind: "committed", upTo: reader.head, rows, ms: performance.now() - started });
    return true;
  } catch (error) {
    sayFailed(error);
    return false;
  }
}

/** Tries again whenever the main thread says so. True once a write has succeeded; false when told to close. */
function untilWritable(journal: JournalFile): boolean {
  for (;;) {
    const told = reader.waitForCommand();
    journal.skip(reader.discard());
    if (told === command.close) {
      // The last chance of what an asynchronous journal still holds.
      commit(journal);
      return false;
    }
    try {
      journal.probe();
    } catch (error) {
      sayFailed(error);
      continue;
    }
    say({ kind: "recovered" });
    return true;
  }
}

function say(message: JournalMessage): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- this is no window
  parentPort?.postMessage(message);
}

function sayFailed(error: unknown): void {
  const { code, message, remedy } = explain(error, journalPath(dataDir));
  // A StoreError is only ever made with one of its codes.
  say({ kind: "failed", code: code as StoreErrorCode, message, remedy });
}
