/** Reads settled charges from the journal, also while a gateway writes it: for exports, tests and shipping. */
import type { DatabaseSync } from "node:sqlite";
import type { Pricing } from "../services/networks.ts";
import { number, text } from "../store/row.ts";
import { explain } from "../store/store-error.ts";
import { blob } from "./journal-file.ts";
import { one, openJournalReader } from "./journal-reader.ts";
import { journalPath } from "./journal-schema.ts";
import { at, kind, readChargeText, RecordCursor } from "./records.ts";

/** One settled charge. The three draws add up to `usedCuMilli`. */
export interface UsageRow {
  /** Unique and stable: the journal's own id, the commit, the place in it. */
  readonly id: string;
  /** Milliseconds since 1970. */
  readonly time: number;
  readonly workspaceId: string;
  readonly keyId: string;
  readonly surface: string;
  readonly method: string;
  readonly model: string | undefined;
  readonly requestId: string;
  /** What the agent called itself; undefined: it did not. */
  readonly agent: string | undefined;
  /** What an inference was reckoned with. */
  readonly pricing: Pricing | undefined;
  readonly usedCuMilli: number;
  readonly includedCuMilli: number;
  readonly purchasedCuMilli: number;
  readonly overageCuMilli: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly estimated: boolean;
  readonly outcome: string;
}

export interface UsageRange {
  /** Milliseconds since 1970; from this instant on. */
  readonly from?: number | undefined;
  /** Up to, and without, this instant. */
  readonly to?: number | undefined;
}

/** Commits read at once. Between two reads no transaction is open, so that a long export does not hold back the WAL. */
const commitsPerRead = 200;

/**
 * The charges of `dataDir` in the order of the journal, those that were settled when it was called. Holds a few hundred
 * commits in memory, never more. Throws StoreError: no journal, unreadable, or of a newer release.
 */
export function* readUsage(dataDir: string, range: UsageRange = {}): Generator<UsageRow> {
  const file = journalPath(dataDir);
  const db = openJournalReader(dataDir);
  try {
    const { from = -Infinity, to = Infinity } = range;
    const uid = text(one(db, "SELECT uid FROM journal"), "uid");
    const last = number(one(db, "SELECT ifnull(max(seq), 0) AS seq FROM commits"), "seq");
    const names = new NameReader(db);
    const page = db.prepare(
      "SELECT seq, first_at, records FROM commits WHERE seq >= ? AND seq <= ? ORDER BY seq LIMIT ?",
    );
    for (let next = firstCommit(db, from, last); next <= last;) {
      const commits = page.all(next, last, commitsPerRead);
      for (const row of commits) {
        // Times in the journal never go back.
        if (number(row, "first_at") >= to) return;
        const seq = number(row, "seq");
        next = seq + 1;
        yield* chargesOf(blob(row["records"]), `chg_${uid}_${seq}`, names, from, to);
      }
      if (commits.length === 0) return;
    }
  } catch (error) {
    throw explain(error, file);
  } finally {
    db.close();
  }
}

/** The first commit that can hold a charge at `from` or later: times ascend with the numbers, so it is bisected. */
function firstCommit(db: DatabaseSync, from: number, last: number): number {
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

/** Charges of one commit within [from, to). */
function* chargesOf(
  records: Buffer,
  commit: string,
  names: NameReader,
  from: number,
  to: number,
): Generator<UsageRow> {
  const cursor = new RecordCursor(records);
  const name = (offset: number): string => names.get(cursor.uint(offset));
  for (let place = 0; cursor.next(); place++) {
    if (cursor.kind !== kind.charge) continue;
    const field = at.charge;
    const time = cursor.float(field.time);
    if (time < from || time >= to) continue;
    const model = cursor.uint(field.model);
    const outcome = cursor.uint(field.outcome);
    yield {
      id: `${commit}_${place}`,
      time,
      workspaceId: name(field.workspace),
      keyId: name(field.key),
      surface: name(field.surface),
      method: name(field.method),
      model: model === 0 ? undefined : names.get(model),
      ...readChargeText(cursor.text(field.text)),
      usedCuMilli: cursor.costMilli,
      includedCuMilli: cursor.float(field.included),
      purchasedCuMilli: cursor.float(field.purchased),
      overageCuMilli: cursor.float(field.overage),
      inputTokens: cursor.float(field.inputTokens),
      outputTokens: cursor.float(field.outputTokens),
      estimated: cursor.estimated,
      outcome: outcome === 0 ? "complete" : names.get(outcome),
    };
  }
}

/** Names by number; those that a running gateway adds are found when they are first needed. */
class NameReader {
  readonly #known = new Map<number, string>();
  readonly #find: ReturnType<DatabaseSync["prepare"]>;

  constructor(db: DatabaseSync) {
    this.#find = db.prepare("SELECT name FROM names WHERE id = ?");
  }

  get(id: number): string {
    const known = this.#known.get(id);
    if (known !== undefined) return known;
    const row = this.#find.get(id);
    if (row === undefined) throw new Error(`the journal has no name ${id}`);
    const name = text(row, "name");
    this.#known.set(id, name);
    return name;
  }
}
