/** The journal's database: its path and its tables. */
import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { openDatabase } from "sluice-gateway/store";

export function journalPath(dataDir: string): string {
  return join(dataDir, "journal.db");
}

/**
 * Opens the journal of `dataDir` for writing, and creates it if it is missing. Throws StoreError, for example if a
 * newer release wrote it.
 */
export function openJournalDatabase(dataDir: string): DatabaseSync {
  return openDatabase(journalPath(dataDir), migrations);
}

/** Schema version that this release writes and reads. */
export const journalVersion = 1;

/**
 * `commits` is the journal. It is append-only and has one row per group commit, with its records encoded as in
 * `records.ts`. All other tables are derived from it, up to the commit in `checkpoint`. `minutes` and `hours` are the
 * charged amounts by key and step, `periods` those by workspace and month. `open_intents` are the reservations of
 * streams that have not ended. Keys, workspaces and steps are numbers: ids of `names`, and the time divided by the
 * step.
 */
const migrations: readonly string[] = [
  `
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

  CREATE TABLE hours (
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
  `,
];
