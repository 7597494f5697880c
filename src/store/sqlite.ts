/** Opens the SQLite files of the data folder: durable, migrated, private, with clear errors. */
import { chmodSync, existsSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { makeFolder } from "./make-folder.ts";
import { explain, isBusy, StoreError } from "./store-error.ts";

/** How long a statement waits for another connection's lock. */
const busyMs = 5_000;

/**
 * Opens (and makes, mode 0600, in a folder of mode 0700) the database `file` and brings it to the newest schema.
 *
 * WAL with `synchronous=FULL`: a commit is on disk when it returns. Foreign keys are enforced. `migrations[i]` is the
 * SQL script from schema version i to i + 1; all that are missing run in one transaction, safe against other processes
 * that do the same. Throws StoreError: unwritable, corrupt, locked, full, or written by a newer release.
 */
export function openDatabase(file: string, migrations: readonly string[]): DatabaseSync {
  let db: DatabaseSync | undefined;
  try {
    db = openPrivate(file, busyMs);
    useWal(db);
    db.exec("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON");
    migrate(db, file, migrations);
    return db;
  } catch (error) {
    db?.close();
    throw explain(error, file);
  }
}

/**
 * Runs `work` in one write transaction: commits when it returns, rolls back when it throws. Inside another transaction
 * of the same connection it joins that one, so that several operations can be made one.
 */
export function transaction<T>(db: DatabaseSync, work: () => T): T {
  if (db.isTransaction) return work();
  // IMMEDIATE: waits for the write lock here, where the busy timeout works, not at the first write after a read.
  db.exec("BEGIN IMMEDIATE");
  try {
    const result = work();
    db.exec("COMMIT");
    return result;
  } catch (error) {
    // Some failures (disk full, I/O) have rolled back already.
    if (db.isTransaction) db.exec("ROLLBACK");
    throw error;
  }
}

/**
 * Opens `file`, made private (0600, folder 0700) when it is new; SQLite gives -wal and -shm the same mode. The mode is
 * set by path: opening and closing the file ourselves would drop every POSIX lock that this process holds on it
 * (https://sqlite.org/howtocorrupt.html, section 2.2).
 */
export function openPrivate(file: string, timeoutMs: number): DatabaseSync {
  makeFolder(dirname(file));
  const isNew = !existsSync(file);
  const db = new DatabaseSync(file, {
    timeout: timeoutMs,
    enableDoubleQuotedStringLiterals: false,
  });
  if (isNew) chmodSync(file, 0o600);
  return db;
}

/** The change to WAL needs the file alone and does not wait for it: two processes that make it together collide. */
function useWal(db: DatabaseSync): void {
  const deadline = performance.now() + busyMs;
  for (;;) {
    try {
      db.exec("PRAGMA journal_mode = WAL");
      return;
    } catch (error) {
      if (!isBusy(error) || performance.now() > deadline) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
    }
  }
}

function migrate(db: DatabaseSync, file: string, migrations: readonly string[]): void {
  // Also when there is nothing to do: SQLite opens what it may not write as read-only, and this is where it shows.
  transaction(db, () => {
    const version = schemaVersion(db);
    if (version > migrations.length) {
      throw new StoreError(
        "SLUICE_STORE_NEWER",
        `${file} was written by a newer release (schema ${version}, this one knows ${migrations.length})`,
        "Run the release that wrote it, or restore a backup from before the upgrade.",
      );
    }
    if (version === migrations.length) return;
    for (const script of migrations.slice(version)) db.exec(script);
    db.exec(`PRAGMA user_version = ${migrations.length}`);
  });
}

function schemaVersion(db: DatabaseSync): number {
  return Number(db.prepare("PRAGMA user_version").get()?.["user_version"]);
}
