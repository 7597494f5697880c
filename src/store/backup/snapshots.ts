import { DatabaseSync } from "node:sqlite";
import { explain, isBusy, StoreError } from "../store-error.ts";

/** Writers of the databases wait while the other locks are held, so the wait for one lock is short. */
const lockMs = 250;
const maxAttempts = 40;

export interface Snapshots extends Disposable {
  /** Connections by file. Each has an open read transaction, which shows the database at the moment. */
  readonly databases: ReadonlyMap<string, DatabaseSync>;
}

/**
 * Opens snapshots of `files`. For about a millisecond, no process can write to any of the databases: without that, the
 * effect of a request could be in one file, and its cause in none. Throws StoreError.
 */
export function openSnapshots(files: readonly string[]): Snapshots {
  for (let attempt = 1; ; attempt++) {
    try {
      return tryToOpen(files);
    } catch (error) {
      if (error instanceof StoreError || !isBusy(error)) throw error;
      if (attempt < maxAttempts) continue;
      throw new StoreError(
        "SLUICE_STORE_BUSY",
        `cannot lock ${files.join(", ")} for the snapshot, because other processes keep writing`,
        "Try again when the gateway is less busy.",
        error,
      );
    }
  }
}

function tryToOpen(files: readonly string[]): Snapshots {
  using locks = new DisposableStack();
  using opened = new DisposableStack();
  for (const file of files) {
    named(file, () => locks.use(connect(file)).exec("BEGIN IMMEDIATE"));
  }
  const databases = new Map<string, DatabaseSync>();
  for (const file of files) {
    const db = opened.use(connect(file));
    named(file, () => {
      db.exec("BEGIN");
      // A transaction takes its snapshot at its first read.
      db.prepare("SELECT count(*) FROM sqlite_schema").get();
    });
    databases.set(file, db);
  }
  const kept = opened.move();
  return { databases, [Symbol.dispose]: () => kept.dispose() };
}

/** Throws StoreError that names the file, unless it is busy. */
function named(file: string, work: () => void): void {
  try {
    work();
  } catch (error) {
    throw isBusy(error) ? error : explain(error, file);
  }
}

function connect(file: string): DatabaseSync {
  return new DatabaseSync(file, { timeout: lockMs });
}
