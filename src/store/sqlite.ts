import { chmodSync, existsSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { makeFolder } from "./make-folder.ts";
import { explain, isBusy, StoreError } from "./store-error.ts";

const busyMs = 5_000;

/**
 * Opens the database `file` and migrates it to the newest schema. A missing file is created with mode 0600, a missing
 * folder with mode 0700.
 *
 * WAL with `synchronous=FULL`: a commit is on disk when it returns. Foreign keys are enforced. `migrations[i]` is the
 * SQL script from schema version i to i + 1. All missing migrations run in one transaction, so other processes may do
 * the same at the same time. Throws StoreError if the file is unwritable, corrupt or locked, if the disk is full, or if
 * a newer release wrote the file.
 */
export function openDatabase(file: string, migrations: readonly string[]): DatabaseSync {
  const db = openDurable(file);
  try {
    migrate(db, file, migrations);
    return db;
  } catch (error) {
    db.close();
    throw explain(error, file);
  }
}

/** Opens the database as `openDatabase` does, without a schema. Throws StoreError. */
export function openDurable(file: string): DatabaseSync {
  let db: DatabaseSync | undefined;
  try {
    db = openPrivate(file, busyMs);
    useWal(db);
    db.exec("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON");
    return db;
  } catch (error) {
    db?.close();
    throw explain(error, file);
  }
}

/** Inside another transaction of the same connection, `work` runs as part of that one. */
export function transaction<T>(db: DatabaseSync, work: () => T): T {
  if (db.isTransaction) return work();
  // IMMEDIATE takes the write lock here, where the busy timeout works, instead of at the first write after a read.
  db.exec("BEGIN IMMEDIATE");
  try {
    const result = work();
    db.exec("COMMIT");
    return result;
  } catch (error) {
    // Some failures (full disk, I/O error) roll back by themselves.
    if (db.isTransaction) db.exec("ROLLBACK");
    throw error;
  }
}

/**
 * Opens `file`. A new file is private (mode 0600, folder 0700), and SQLite gives its -wal and -shm files the same mode.
 * The mode is set by path, because opening and closing the file would drop every POSIX lock that this process holds on
 * it (https://sqlite.org/howtocorrupt.html, section 2.2).
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

/** The change to WAL needs an exclusive lock and fails at once if another process has one, so it is tried again. */
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
  // Runs even without missing migrations: SQLite opens an unwritable file as read-only, and a write transaction shows
  // it.
  transaction(db, () => {
    const version = schemaVersion(db);
    if (version > migrations.length) {
      throw new StoreError(
        "SLUICE_STORE_NEWER",
        `${file} was written by a newer release: it has schema version ${version}, and this release supports ${migrations.length}`,
        "Run the release that wrote it, or restore a backup from before the upgrade.",
      );
    }
    if (version === migrations.length) return;
    for (const script of migrations.slice(version)) db.exec(script);
    db.exec(`PRAGMA user_version = ${migrations.length}`);
  });
}

export function schemaVersion(db: DatabaseSync): number {
  return Number(db.prepare("PRAGMA user_version").get()?.["user_version"]);
}
