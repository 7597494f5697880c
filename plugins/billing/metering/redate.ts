/**
 * Moves charges to the present that a clock which ran ahead has dated into the future. Otherwise no window and no month
 * would move on until that time, and the export of the present month would miss them.
 */
import type { DatabaseSync } from "node:sqlite";
import { number, text, transaction } from "sluice-gateway/internal/store";
import { periodOf } from "../leases/months.ts";
import { commitsWithin, firstCommit, newestCommit, singleRow } from "./journal-reader.ts";
import { kind, RecordCursor, timeOffset } from "./records.ts";
import { addToMinute, exactSum, writeSteps } from "./sums.ts";
import { dayWindow, monthWindow } from "./windows.ts";

/** Difference that is ignored: the clocks of two hosts, or of one host before and after its synchronisation. */
export const ignoredMs = 60_000;
export const clockIsBehind =
  "the clock is behind the last charge in the journal: until it has caught up, new charges get the time of the last one, and windows do not move on; check the clock of this host";
/** A clock before this time is wrong, because this program is newer (milliseconds since 1970). */
const earliestNow = Date.UTC(2026, 0);
/** Maximum time that all charges of a journal may span if no charge is older than the clock. */
const maxWholeMs = 86_400_000;

export interface FutureCommits {
  /** Number of the first commit. All later commits are in the future, too. */
  readonly seq: number;
  readonly commits: number;
  /** Times of the first and the last record, in milliseconds since 1970. */
  readonly from: number;
  readonly to: number;
  /** The time that they should have: the present, but not before the commit before them. */
  readonly present: number;
}

/**
 * Returns the commits that are later than `now`, if it is certain that they are wrong and not the clock. Such a clock
 * has left a jump in the journal: it lasted less than it was ahead, so the jump is longer than the time that the
 * commits after it span. A clock that is behind falls among the charges, where no such jump is. Undefined if there are
 * none, or if it is not certain. The meter then keeps the time of the last charge.
 */
export function findFutureCommits(db: DatabaseSync, now: number): FutureCommits | undefined {
  const last = newestCommit(db);
  const seq = firstCommit(db, now + ignoredMs, last);
  if (seq > last || now < earliestNow) return undefined;
  const from = number(singleRow(db, `SELECT first_at FROM commits WHERE seq = ${seq}`), "first_at");
  const to = number(singleRow(db, `SELECT last_at FROM commits WHERE seq = ${last}`), "last_at");
  const isCertain = seq > 1 ? from - now > to - from : to - from < maxWholeMs;
  if (!isCertain) return undefined;
  const before = db.prepare("SELECT last_at FROM commits WHERE seq = ?").get(seq - 1);
  const present = Math.max(now, before === undefined ? 0 : number(before, "last_at"));
  return { seq, commits: last - seq + 1, from, to, present };
}

/**
 * Dates these commits to the present, and computes the sums again. The journal keeps their old times in the table
 * `redated_commits`, which earlier releases ignore. All of this is one transaction, so that a crash changes nothing.
 * The sums must be complete. Throws if the journal cannot be written.
 */
export function redateCommits(db: DatabaseSync, future: FutureCommits): void {
  const now = future.present;
  transaction(db, () => {
    db.exec(`
      CREATE TABLE IF NOT EXISTS redated_commits (
        seq INTEGER NOT NULL, first_at INTEGER NOT NULL, last_at INTEGER NOT NULL, now INTEGER NOT NULL
      ) STRICT`);
    db.prepare(
      "INSERT INTO redated_commits SELECT seq, first_at, last_at, ? FROM commits WHERE seq >= ?",
    ).run(now, future.seq);
    const update = db.prepare(
      "UPDATE commits SET first_at = min(first_at, ?1), last_at = ?1, records = ?2 WHERE seq = ?3",
    );
    for (const { seq, records } of commitsWithin(db, -Infinity, Infinity, future.seq)) {
      redate(records, now);
      update.run(now, records, seq);
    }
    moveSums(db, now);
  });
}

function redate(records: Buffer, now: number): void {
  const cursor = new RecordCursor(records);
  while (cursor.next()) {
    if (cursor.kind === kind.name) continue;
    const offset = timeOffset(cursor.kind);
    if (cursor.float(offset) > now) cursor.view.setFloat64(cursor.start + offset, now, true);
  }
}

/** The minutes are added up again, because a meter in the future has deleted those before its own window. */
function moveSums(db: DatabaseSync, now: number): void {
  const minutes = new Map<number, Map<number, number>>();
  const since = now - (dayWindow.steps + 1) * dayWindow.stepMs;
  for (const { records } of commitsWithin(db, since, Infinity)) {
    const cursor = new RecordCursor(records);
    while (cursor.next()) if (cursor.kind === kind.charge) addToMinute(minutes, cursor);
  }
  db.exec("DELETE FROM minutes");
  writeSteps(db, "minutes", minutes, now, dayWindow);
  const hour = Math.floor(now / monthWindow.stepMs);
  moveRows(db, "hours", "hour", hour);
  moveRows(db, "periods", "period", periodOf(now).start);
  db.exec("DELETE FROM key_hours");
  db.prepare(
    `INSERT INTO key_hours
       SELECT hour, key, min(${Number.MAX_SAFE_INTEGER}, sum(included + purchased + overage)) FROM hours
       WHERE hour >= ? GROUP BY hour, key`,
  ).run(hour - monthWindow.steps);
  db.prepare("UPDATE open_intents SET at = min(at, ?)").run(now);
}

function moveRows(
  db: DatabaseSync,
  table: "hours" | "periods",
  time: string,
  present: number,
): void {
  const columns = db.prepare("SELECT name, pk FROM pragma_table_info(?)").all(table);
  const named = (isKey: boolean): string[] =>
    columns.filter((row) => (row["pk"] !== 0) === isKey).map((row) => text(row, "name"));
  const keys = named(true).filter((name) => name !== time);
  const amounts = named(false);
  db.prepare(
    `INSERT INTO ${table} (${[time, ...keys, ...amounts].join(", ")})
       SELECT ?1, ${[...keys, ...amounts.map((name) => `sum(${name})`)].join(", ")} FROM ${table}
       WHERE ${time} > ?1 GROUP BY ${keys.join(", ")}
     ON CONFLICT DO UPDATE SET ${amounts.map(exactSum).join(", ")}`,
  ).run(present);
  db.prepare(`DELETE FROM ${table} WHERE ${time} > ?`).run(present);
}
