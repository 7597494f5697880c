/** The database of the charges: its path, its tables, and the takeover of `journal.db` of an earlier release. */
import { join, dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { openDatabase, explain, StoreError } from "sluice-gateway/internal/store";
import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";

export function chargesPath(dataDir: string): string {
  return join(dataDir, "charges.db");
}

export function earlierPath(dataDir: string): string {
  return join(dataDir, "journal.db");
}

/** Creates the file if it is missing. Throws StoreError, for example if a newer release wrote it. */
export function openChargesDatabase(dataDir: string): DatabaseSync {
  const file = chargesPath(dataDir);
  takeOverJournal(earlierPath(dataDir), file);
  return openDatabase(file, migrations);
}

/** Schema version that this release writes. Readers also accept the version of an earlier release. */
export const chargesVersion = 2;

/**
 * `commits` has one row per group commit, with its records encoded as in `records.ts`. It is append-only, and all other
 * tables are derived from it, up to the commit in `checkpoint`. `minutes` are the charged amounts by key and step,
 * `periods` those by workspace and month. `open_intents` are the reservations of streams that have not ended. Keys,
 * workspaces and steps are numbers: ids of `names`, and the time divided by the step.
 */
const earlierTables = `
  CREATE TABLE journal (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    uid TEXT NOT NULL
  ) STRICT;
  INSERT INTO journal VALUES (1, lower(hex(randomblob(6))));

  CREATE TABLE commits (
    seq INTEGER PRIMARY KEY,
    first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    records BLOB NOT NULL
  ) STRICT;

  CREATE TABLE names (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
  ) STRICT;

  CREATE TABLE checkpoint (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    seq INTEGER NOT NULL
  ) STRICT;
  INSERT INTO checkpoint VALUES (1, 0);

  CREATE TABLE minutes (
    step INTEGER NOT NULL,
    key INTEGER NOT NULL,
    cu_milli INTEGER NOT NULL,
    PRIMARY KEY (step, key)
  ) STRICT, WITHOUT ROWID;


  CREATE TABLE periods (
    period INTEGER NOT NULL,
    workspace INTEGER NOT NULL,
    included INTEGER NOT NULL,
    purchased INTEGER NOT NULL,
    overage INTEGER NOT NULL,
    PRIMARY KEY (period, workspace)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE open_intents (
    intent INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    key INTEGER NOT NULL,
    workspace INTEGER NOT NULL,
    surface INTEGER NOT NULL,
    reserved_cu_milli INTEGER NOT NULL,
    request_id TEXT NOT NULL
  ) STRICT;

  CREATE TABLE probe (
    id INTEGER PRIMARY KEY,
    filler BLOB NOT NULL
  ) STRICT;
  `;

/**
 * `hours` are the sums of charges by hour and by everything that reports distinguish. `key_hours` are those by key of
 * the last 30 days. The numbers of a missing model and of a missing route are 0, and a missing tag is an empty text.
 * All sums are made again from the commits, at the first start.
 */
const hours = `
  DROP TABLE IF EXISTS hours;
  CREATE TABLE key_hours (
    step INTEGER NOT NULL,
    key INTEGER NOT NULL,
    cu_milli INTEGER NOT NULL,
    PRIMARY KEY (step, key)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE hours (
    hour INTEGER NOT NULL,
    workspace INTEGER NOT NULL,
    key INTEGER NOT NULL,
    surface INTEGER NOT NULL,
    method INTEGER NOT NULL,
    model INTEGER NOT NULL,
    route INTEGER NOT NULL,
    tag TEXT NOT NULL,
    calls INTEGER NOT NULL,
    included INTEGER NOT NULL,
    purchased INTEGER NOT NULL,
    overage INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    PRIMARY KEY (hour, workspace, key, surface, method, model, route, tag)
  ) STRICT, WITHOUT ROWID;

  DELETE FROM minutes;
  DELETE FROM periods;
  DELETE FROM open_intents;
  UPDATE checkpoint SET seq = 0;
  `;

const migrations: readonly string[] = [earlierTables, hours];

/** Schema version of `journal.db` after its charges were taken over. Earlier releases refuse it. */
export const takenOverVersion = 2;

const busyMs = 5_000;

/**
 * Gives the file `earlier` the name `file`, and puts an empty database in its place, which an earlier release refuses.
 * There is a file with the earlier name at every moment, so an earlier release never starts without the charges, and
 * the next start continues a takeover that was interrupted. Does nothing if `earlier` is missing.
 * Throws StoreError.
 */
export function takeOverJournal(earlier: string, file: string): void {
  if (!existsSync(earlier)) return;
  try {
    if (!isTakenOver(earlier)) replace(earlier, file);
    // The sums of an earlier release. They are now in the same file as the charges.
    for (const end of ["", "-wal", "-shm"]) {
      rmSync(join(dirname(earlier), `spend.db${end}`), { force: true });
    }
  } catch (error) {
    throw explain(error, earlier);
  }
}

function replace(earlier: string, file: string): void {
  if (!existsSync(file)) linkSync(earlier, file);
  else if (statSync(earlier).ino !== statSync(file).ino) throw twoFiles(earlier, file);
  const empty = `${earlier}.next`;
  rmSync(empty, { force: true });
  const db = openDatabase(empty, Array<string>(takenOverVersion).fill(""));
  db.exec("PRAGMA journal_mode = DELETE");
  db.close();
  syncFolder(dirname(earlier));
  renameSync(empty, earlier);
  syncFolder(dirname(earlier));
}

/** Returns false after the content of the WAL was moved into the file, so that the file alone has all charges. */
function isTakenOver(earlier: string): boolean {
  using db = new DatabaseSync(earlier, { timeout: busyMs });
  const version = Number(db.prepare("PRAGMA user_version").get()?.["user_version"]);
  if (version > takenOverVersion) {
    throw new StoreError(
      "SLUICE_STORE_NEWER",
      `${earlier} was written by a newer release: it has schema version ${version}, and this release supports ${takenOverVersion}`,
      "Run the release that wrote it, or restore a backup from before the upgrade.",
    );
  }
  if (version === takenOverVersion) return true;
  db.exec("PRAGMA journal_mode = DELETE");
  return false;
}

function twoFiles(earlier: string, file: string): StoreError {
  return new StoreError(
    "SLUICE_STORE_FAILED",
    `${earlier} and ${file} both have charges`,
    "Move the file that does not belong to this data folder to another folder.",
  );
}

function syncFolder(folder: string): void {
  const handle = openSync(folder, "r");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
