/** Reads the commits of the journal, even while a gateway writes it. */
import type { DatabaseSync } from "node:sqlite";
import { blob, number, text } from "sluice-gateway/internal/store";
import { newestCommit } from "./journal-reader.ts";

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

/**
 * Returns the number of the first commit that can hold a charge at `from` or later. Times ascend with the numbers, so
 * this is a binary search.
 */
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

/** Finds names by number. Names that a running gateway adds are read when they are first needed. */
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
