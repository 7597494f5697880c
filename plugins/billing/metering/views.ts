/**
 * The views: sums of the journal's records since the last checkpoint. They are the charges by key and step, the draws
 * by workspace and month, and the open intents. The journal thread adds every commit to them and writes them once per
 * minute, so that a start reads the sums and replays at most the records of the last minute.
 */
import type { DatabaseSync } from "node:sqlite";
import { transaction } from "sluice-gateway/store";
import { periodOf, type Period, type Split } from "./periods.ts";
import { at, kind, RecordCursor } from "./records.ts";
import { dayWindow, monthWindow } from "./windows.ts";

interface OpenIntent {
  readonly at: number;
  readonly key: number;
  readonly workspace: number;
  readonly surface: number;
  readonly reservedMilliCu: number;
  readonly requestId: string;
}

/** Sums by step (or month), then by the number of the key or workspace. */
type Sums<T> = Map<number, Map<number, T>>;

export class Views {
  readonly #windows = new WindowSums();
  readonly #periods: Sums<Split> = new Map();
  readonly #intents: Map<number, OpenIntent>;
  #period: Period = { start: 0, end: 0 };
  /** Time of the newest record that was added, in milliseconds since 1970. */
  newest = 0;
  #dirty = false;

  private constructor(intents: Map<number, OpenIntent>) {
    this.#intents = intents;
  }

  /** Loads the intents that were open at the last checkpoint. */
  static load(db: DatabaseSync): Views {
    const intents = new Map<number, OpenIntent>();
    for (const row of db.prepare("SELECT * FROM open_intents").iterate()) {
      intents.set(Number(row["intent"]), {
        at: Number(row["at"]),
        key: Number(row["key"]),
        workspace: Number(row["workspace"]),
        surface: Number(row["surface"]),
        reservedMilliCu: Number(row["reserved_cu_milli"]),
        requestId: String(row["request_id"]),
      });
    }
    return new Views(intents);
  }

  get openIntents(): ReadonlyMap<number, unknown> {
    return this.#intents;
  }

  /** True if records were added since the last `write`. */
  get dirty(): boolean {
    return this.#dirty;
  }

  fold(records: Buffer): void {
    const cursor = new RecordCursor(records);
    while (cursor.next()) {
      if (cursor.kind === kind.charge) this.#charge(cursor);
      else if (cursor.kind === kind.intent) this.#intent(cursor);
      else if (cursor.kind === kind.closed) this.#intents.delete(cursor.float(at.closed.intent));
    }
    this.#dirty = true;
  }

  #charge(cursor: RecordCursor): void {
    const time = cursor.float(at.charge.time);
    const workspace = cursor.uint(at.charge.workspace);
    this.newest = Math.max(this.newest, time);
    this.#windows.add(cursor);
    if (time < this.#period.start || time >= this.#period.end) this.#period = periodOf(time);
    const drawn = sumsOf(this.#periods, this.#period.start);
    let split = drawn.get(workspace);
    if (split === undefined) {
      split = { includedMilliCu: 0, purchasedMilliCu: 0, overageMilliCu: 0 };
      drawn.set(workspace, split);
    }
    split.includedMilliCu += cursor.float(at.charge.included);
    split.purchasedMilliCu += cursor.float(at.charge.purchased);
    split.overageMilliCu += cursor.float(at.charge.overage);
    const intent = cursor.float(at.charge.intent);
    if (intent !== 0) this.#intents.delete(intent);
  }

  #intent(cursor: RecordCursor): void {
    this.newest = Math.max(this.newest, cursor.float(at.intent.time));
    this.#intents.set(cursor.float(at.intent.intent), {
      at: cursor.float(at.intent.time),
      key: cursor.uint(at.intent.key),
      workspace: cursor.uint(at.intent.workspace),
      surface: cursor.uint(at.intent.surface),
      reservedMilliCu: cursor.float(at.intent.reserved),
      requestId: cursor.text(at.intent.text),
    });
  }

  /**
   * Writes the sums, which include everything up to commit `seq`. Call `written` after the transaction has committed.
   */
  write(db: DatabaseSync, seq: number): void {
    transaction(db, () => {
      this.#windows.write(db, this.newest);
      writePeriods(db, this.#periods);
      writeIntents(db, this.#intents);
      db.prepare("UPDATE checkpoint SET seq = ?").run(seq);
    });
  }

  /** Clears the sums that `write` has written, after they are on disk. */
  written(): void {
    this.#windows.clear();
    this.#periods.clear();
    this.#dirty = false;
  }
}

/** The charges by key and step of both windows. */
export class WindowSums {
  readonly #minutes: Sums<number> = new Map();
  readonly #hours: Sums<number> = new Map();

  /** Adds the charge at the cursor. */
  add(cursor: RecordCursor): void {
    const time = cursor.float(at.charge.time);
    const key = cursor.uint(at.charge.key);
    const cost = cursor.costMilliCu;
    addTo(this.#minutes, Math.floor(time / dayWindow.stepMs), key, cost);
    addTo(this.#hours, Math.floor(time / monthWindow.stepMs), key, cost);
  }

  /** Adds the sums to those in the database, and deletes the steps that have left the windows at `now`. */
  write(db: DatabaseSync, now: number): void {
    writeSteps(db, "minutes", this.#minutes, now, dayWindow);
    writeSteps(db, "hours", this.#hours, now, monthWindow);
  }

  clear(): void {
    this.#minutes.clear();
    this.#hours.clear();
  }
}

function sumsOf<T>(sums: Sums<T>, step: number): Map<number, T> {
  const known = sums.get(step);
  if (known !== undefined) return known;
  const inStep = new Map<number, T>();
  sums.set(step, inStep);
  return inStep;
}

function addTo(sums: Sums<number>, step: number, key: number, amountMilliCu: number): void {
  const inStep = sumsOf(sums, step);
  inStep.set(key, (inStep.get(key) ?? 0) + amountMilliCu);
}

function writeSteps(
  db: DatabaseSync,
  table: "minutes" | "hours",
  sums: Sums<number>,
  newest: number,
  { stepMs, steps }: { readonly stepMs: number; readonly steps: number },
): void {
  const insert = db.prepare(
    `INSERT INTO ${table} VALUES (?, ?, ?)
     ON CONFLICT DO UPDATE SET cu_milli = ${exactSum("cu_milli")}`,
  );
  for (const [step, keys] of sums) {
    for (const [key, sum] of keys) insert.run(step, key, exact(sum));
  }
  db.prepare(`DELETE FROM ${table} WHERE step < ?`).run(Math.floor(newest / stepMs) - steps);
}

function writePeriods(db: DatabaseSync, sums: Sums<Split>): void {
  const insert = db.prepare(
    `INSERT INTO periods VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
       included = ${exactSum("included")},
       purchased = ${exactSum("purchased")},
       overage = ${exactSum("overage")}`,
  );
  for (const [period, workspaces] of sums) {
    for (const [workspace, { includedMilliCu, purchasedMilliCu, overageMilliCu }] of workspaces) {
      insert.run(
        period,
        workspace,
        exact(includedMilliCu),
        exact(purchasedMilliCu),
        exact(overageMilliCu),
      );
    }
  }
}

/**
 * Limits a sum to the largest exact number. A larger one could not be read back as a number, and a much larger one
 * could not be written.
 */
function exact(sumMilliCu: number): number {
  return Math.min(sumMilliCu, Number.MAX_SAFE_INTEGER);
}

/** Returns the SQL that adds to a column with the same limit as `exact`. */
function exactSum(column: string): string {
  return `min(${Number.MAX_SAFE_INTEGER}, ${column} + excluded.${column})`;
}

function writeIntents(db: DatabaseSync, intents: ReadonlyMap<number, OpenIntent>): void {
  db.exec("DELETE FROM open_intents");
  if (intents.size === 0) return;
  const insert = db.prepare("INSERT INTO open_intents VALUES (?, ?, ?, ?, ?, ?, ?)");
  for (const [id, each] of intents) {
    const { at: since, key, workspace, surface, reservedMilliCu, requestId } = each;
    insert.run(id, since, key, workspace, surface, reservedMilliCu, requestId);
  }
}
