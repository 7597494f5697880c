/** The database of the charges, `charges.db`: its path and its tables. */
import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { openDatabase } from "sluice-gateway/internal/store";
import { takeOverJournal } from "./take-over.ts";

export function chargesPath(dataDir: string): string {
  return join(dataDir, "charges.db");
}

/** The file in which earlier releases keep the charges. */
export function earlierPath(dataDir: string): string {
  return join(dataDir, "journal.db");
}

/**
 * Opens the charges of `dataDir` for writing, after those of an earlier release were taken over. Creates the file if it
 * is missing. Throws StoreError, for example if a newer release wrote it.
 */
export function openChargesDatabase(dataDir: string): DatabaseSync {
  const file = chargesPath(dataDir);
  takeOverJournal(earlierPath(dataDir), file);
  return openDatabase(file, migrations);
}

/** Schema version that this release writes. Readers also accept the version of an earlier release. */
export const chargesVersion = 2;

/**
 * `commits` has one row per group commit, with its records encoded as in `records.ts`. It is append-only, and all other
 * tables are derived from it, up to the commit in `checkpoint`. `minutes` and `hours` are the charged amounts by key and
 * step, `periods` those by workspace and month. `open_intents` are the reservations of streams that have not ended. Keys,
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
  `;

/**
 * `hours` are the sums of charges by hour and by everything that reports distinguish. `key_hours` are those by key of the
 * last 30 days. The numbers of a missing model and of a missing route are 0, and a missing tag is an empty text. All sums
 * are made again from the commits, at the first start.
 */
const hours = `
  DROP TABLE hours;
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
