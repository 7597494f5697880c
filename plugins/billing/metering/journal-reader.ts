/** Reads the journal of charges and its commits while a gateway may write them. */
import { existsSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { explain, number, StoreError, text, type Row, blob } from "sluice-gateway/internal/store";
import { chargesPath, chargesVersion, earlierPath } from "./journal-schema.ts";

/** Returns true if a gateway has ever metered in this data folder. */
export function hasJournal(dataDir: string): boolean {
  return existsSync(writtenPath(dataDir));
}

/** Until the first start of this release, the charges are in the file of an earlier release. */
export function writtenPath(dataDir: string): string {
  const file = chargesPath(dataDir);
  const earlier = earlierPath(dataDir);
  return existsSync(file) || !existsSync(earlier) ? file : earlier;
}

/** Throws StoreError if the charges are missing or unreadable, or if a newer release wrote them. */
export function openJournalReader(dataDir: string): DatabaseSync {
  const file = writtenPath(dataDir);
  if (!hasJournal(dataDir)) {
    throw new StoreError(
      "SLUICE_STORE_FAILED",
      `there is no journal at ${file}`,
      "Start the gateway once, or set store.data (DATA_DIR) to the data folder of the gateway.",
    );
  }
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(file, { readOnly: true, timeout: 5_000 });
    const version = number(singleRow(db, "PRAGMA user_version"), "user_version");
    if (version > chargesVersion) {
      throw new StoreError(
        "SLUICE_STORE_NEWER",
        `${file} was written by a newer release: it has schema version ${version}, and this release supports ${chargesVersion}`,
        "Run the release that wrote it.",
      );
    }
    return db;
  } catch (error) {
    db?.close();
    throw explain(error, file);
  }
}

export function journalUid(db: DatabaseSync): string {
  return text(singleRow(db, "SELECT uid FROM journal"), "uid");
}

export function newestCommit(db: DatabaseSync): number {
  return number(singleRow(db, "SELECT ifnull(max(seq), 0) AS seq FROM commits"), "seq");
}

export function singleRow(db: DatabaseSync, sql: string): Row {
  const row = db.prepare(sql).get();
  if (row === undefined) throw new Error(`no row for ${sql}`);
  return row;
}

export interface Commit {
  readonly seq: number;
  /** Encoded as in records.ts. */
  readonly records: Buffer;
}

/**
 * Number of commits per read. No transaction is open between two reads, so that a long read does not keep the WAL from
 * being moved into the database.
 */
const commitsPerRead = 200;

/**
 * Yields, in order, the commits that can hold records with `from <= time < to` (milliseconds since 1970). It stops at
 * the last commit that existed at the call, and starts no earlier than the commit number `first`. At most a few hundred
 * commits are in memory at once.
 */
export function* commitsWithin(
  db: DatabaseSync,
  from: number,
  to: number,
  first = 1,
): Generator<Commit> {
  const last = newestCommit(db);
  const page = db.prepare(
    "SELECT seq, first_at, records FROM commits WHERE seq >= ? AND seq <= ? ORDER BY seq LIMIT ?",
  );
  for (let next = Math.max(first, firstCommit(db, from, last)); next <= last;) {
    const commits = page.all(next, last, commitsPerRead);
    for (const row of commits) {
      // Times in the journal ascend.
      if (number(row, "first_at") >= to) return;
      const seq = number(row, "seq");
      next = seq + 1;
      yield { seq, records: blob(row, "records") };
    }
    if (commits.length === 0) return;
  }
}

/** Finds the first commit that can hold a charge at `from` or later, by a binary search, because times ascend. */
export function firstCommit(db: DatabaseSync, from: number, last: number): number {
  const lastAt = db.prepare("SELECT seq, last_at FROM commits WHERE seq >= ? ORDER BY seq LIMIT 1");
  let low = 1;
  let high = last + 1;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const row = lastAt.get(middle);
    if (row === undefined || number(row, "last_at") >= from) high = middle;
    else low = number(row, "seq") + 1;
  }
  return low;
}

/** Names that a running gateway adds are read when they are first needed. */
export class NameReader {
  readonly #known = new Map<number, string>();
  readonly #find: ReturnType<DatabaseSync["prepare"]>;

  constructor(db: DatabaseSync) {
    this.#find = db.prepare("SELECT name FROM names WHERE id = ?");
  }

  get(id: number): string {
    const known = this.#known.get(id);
    if (known !== undefined) return known;
    const row = this.#find.get(id);
    if (row === undefined) throw new Error(`the journal has no name with the id ${id}`);
    const name = text(row, "name");
    this.#known.set(id, name);
    return name;
  }
}
