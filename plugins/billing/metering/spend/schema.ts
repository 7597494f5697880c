/**
 * The database of the daily sums of charges, `spend.db`: its path and its tables. It is derived from the journal, so it
 * can be deleted at any time, and a backup does not need it.
 */
import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { spendMembers, type SpendMember } from "sluice-gateway/services";
import { openDatabase } from "sluice-gateway/store";

export const dayMs = 86_400_000;

/** Values of the column `span`. */
export const span = { day: 0, month: 1 } as const;

/** Returns the value of the column `member`. */
export function memberNumber(member: SpendMember): number {
  return spendMembers.indexOf(member);
}

/** Returns the number of a month (UTC) in the column `start`. `time`: milliseconds since 1970. */
export function monthNumber(time: number): number {
  const date = new Date(time);
  return date.getUTCFullYear() * 12 + date.getUTCMonth();
}

/** Returns the start of a month in milliseconds since 1970. */
export function monthStart(month: number): number {
  return Date.UTC(Math.floor(month / 12), month % 12);
}

export function openSpendDatabase(dataDir: string): DatabaseSync {
  const db = openDatabase(join(dataDir, "spend.db"), migrations);
  // The rows can be computed again, so no commit has to wait for the disk.
  db.exec("PRAGMA synchronous = NORMAL; PRAGMA cache_size = -65536");
  return db;
}

/**
 * `sums` has one row per scope, member, span, start and name. `scope`: a workspace, or 0 for all. Workspaces and names
 * are ids of the journal's table `names`; for the member `tag` they are ids of `tags`. 0 is the missing name. `start`:
 * days since 1970, or the number of the month. Only the scope 0 has months.
 *
 * `read` is the last commit of the journal that the sums include. `first_at`, `last_at` and `bytes` describe that
 * commit, which shows whether the journal is still the same.
 */
const migrations: readonly string[] = [
  `
  CREATE TABLE read (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    journal TEXT NOT NULL,
    seq INTEGER NOT NULL,
    first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    bytes INTEGER NOT NULL
  ) STRICT;

  CREATE TABLE tags (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
  ) STRICT;

  CREATE TABLE sums (
    scope INTEGER NOT NULL,
    member INTEGER NOT NULL,
    span INTEGER NOT NULL,
    start INTEGER NOT NULL,
    name INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    included INTEGER NOT NULL,
    purchased INTEGER NOT NULL,
    overage INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    PRIMARY KEY (scope, member, span, start, name)
  ) STRICT, WITHOUT ROWID;
  `,
];
