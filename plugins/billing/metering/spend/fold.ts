/**
 * Adds the new charges of the journal to the daily and monthly sums in `spend.db`. A range of a year then reads a few
 * rows per name instead of every charge.
 */
import type { DatabaseSync } from "node:sqlite";
import { spendMembers } from "sluice-gateway/services";
import { number, text, transaction } from "sluice-gateway/store";
import { commitsWithin } from "../commits.ts";
import { journalUid } from "../journal-reader.ts";
import { at, kind, RecordCursor } from "../records.ts";
import { ChargeNames } from "./charge-names.ts";
import { dayMs, monthNumber, span } from "./schema.ts";

/** Amounts in the order of the columns: calls, the three draws, input tokens, output tokens. */
type Amounts = [number, number, number, number, number, number];

/** The sums of one day: a map per member, from the number of a workspace and a name to the amounts. */
type DaySums = readonly Map<number, Amounts>[];

/** Exclusive upper bound of the numbers of names. */
const nameLimit = 2 ** 26;

interface Turn {
  /** The database `spend.db`. */
  readonly sums: DatabaseSync;
  readonly journal: DatabaseSync;
  /** Number of charges after which a transaction ends. */
  readonly maxCharges: number;
}

/**
 * Adds new charges until `isLate` returns true. Returns false if there are more. The sums start from the beginning if
 * they belong to another journal, or to a journal that was replaced by an older copy.
 */
export function addNewCharges(turn: Turn, isLate: () => boolean): boolean {
  for (;;) {
    // Another thread may do the same, so the position is read within the transaction that moves it.
    const added = transaction(turn.sums, () => addTurn(turn));
    if (added < turn.maxCharges) return true;
    if (isLate()) return false;
  }
}

function addTurn({ sums, journal, maxCharges }: Turn): number {
  const after = lastRead(sums, journal);
  const days = new Map<number, DaySums>();
  const names = new ChargeNames(sums, journal);
  let charges = 0;
  let last = after;
  for (const { seq, records } of commitsWithin(journal, -Infinity, Infinity, after + 1)) {
    if (charges >= maxCharges) break;
    const cursor = new RecordCursor(records);
    while (cursor.next()) {
      if (cursor.kind !== kind.charge) continue;
      addCharge(days, cursor, names);
      charges++;
    }
    last = seq;
  }
  if (last === after) return 0;
  writeSums(sums, days);
  moveTo(sums, journal, last);
  return charges;
}

function addCharge(
  days: Map<number, DaySums>,
  cursor: RecordCursor,
  chargeNames: ChargeNames,
): void {
  const field = at.charge;
  const day = Math.floor(cursor.float(field.time) / dayMs);
  let sums = days.get(day);
  if (sums === undefined) {
    sums = spendMembers.map(() => new Map<number, Amounts>());
    days.set(day, sums);
  }
  const workspace = cursor.uint(field.workspace);
  const names = chargeNames.of(cursor);
  const amounts: Amounts = [
    1,
    cursor.float(field.included),
    cursor.float(field.purchased),
    cursor.float(field.overage),
    cursor.float(field.inputTokens),
    cursor.float(field.outputTokens),
  ];
  for (const [member, byName] of sums.entries()) {
    addAmounts(byName, workspace * nameLimit + (names[member] ?? 0), amounts);
  }
}

function addAmounts(sums: Map<number, Amounts>, place: number, amounts: Amounts): void {
  const known = sums.get(place);
  if (known === undefined) {
    sums.set(place, [...amounts]);
    return;
  }
  for (const [column, amount] of amounts.entries()) known[column] = (known[column] ?? 0) + amount;
}

/** The scope 0 also has months, because a year of the days of all keys would be slow to read. */
function writeSums(sums: DatabaseSync, days: ReadonlyMap<number, DaySums>): void {
  const add = sums.prepare(`
    INSERT INTO sums VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
      calls = calls + excluded.calls, included = included + excluded.included,
      purchased = purchased + excluded.purchased, overage = overage + excluded.overage,
      input_tokens = input_tokens + excluded.input_tokens,
      output_tokens = output_tokens + excluded.output_tokens`);
  for (const [member] of spendMembers.entries()) {
    const months = new Map<number, Map<number, Amounts>>();
    for (const [day, byMember] of days) {
      const all = new Map<number, Amounts>();
      for (const [place, amounts] of byMember[member] ?? []) {
        const name = place % nameLimit;
        add.run(Math.floor(place / nameLimit), member, span.day, day, name, ...amounts);
        addAmounts(all, name, amounts);
      }
      const monthOfDay = monthNumber(day * dayMs);
      const month = months.get(monthOfDay) ?? new Map<number, Amounts>();
      months.set(monthOfDay, month);
      for (const [name, amounts] of all) {
        add.run(0, member, span.day, day, name, ...amounts);
        addAmounts(month, name, amounts);
      }
    }
    for (const [month, byName] of months) {
      for (const [name, amounts] of byName) {
        add.run(0, member, span.month, month, name, ...amounts);
      }
    }
  }
}

/** Returns the last commit that the sums include, 0 if there is none. */
function lastRead(sums: DatabaseSync, journal: DatabaseSync): number {
  const row = sums.prepare("SELECT * FROM read").get();
  if (row === undefined) return 0;
  const seq = number(row, "seq");
  const found = commitOf(journal, seq);
  const isSame =
    found !== undefined &&
    text(row, "journal") === journalUid(journal) &&
    (["first_at", "last_at", "bytes"] as const).every((name) => found[name] === row[name]);
  if (isSame) return seq;
  sums.exec("DELETE FROM sums; DELETE FROM tags; DELETE FROM read");
  return 0;
}

function moveTo(sums: DatabaseSync, journal: DatabaseSync, seq: number): void {
  const commit = commitOf(journal, seq);
  if (commit === undefined) throw new Error(`the journal has no commit ${seq}`);
  sums
    .prepare("INSERT OR REPLACE INTO read VALUES (1, ?, ?, ?, ?, ?)")
    .run(journalUid(journal), seq, commit.first_at, commit.last_at, commit.bytes);
}

interface CommitRow {
  readonly first_at: number;
  readonly last_at: number;
  readonly bytes: number;
}

function commitOf(journal: DatabaseSync, seq: number): CommitRow | undefined {
  const query = "SELECT first_at, last_at, length(records) AS bytes FROM commits WHERE seq = ?";
  const row = journal.prepare(query).get(seq);
  if (row === undefined) return undefined;
  return {
    first_at: number(row, "first_at"),
    last_at: number(row, "last_at"),
    bytes: number(row, "bytes"),
  };
}
