/**
 * The sums of the records since the last checkpoint: the charges by hour, by key and minute, and the open intents. The
 * thread of the charges adds every commit to them and writes them once per minute, in one transaction with a commit. A
 * start reads the sums and replays at most the records of the last minute; readers add the charges since the checkpoint.
 */
import type { DatabaseSync } from "node:sqlite";
import { transaction } from "sluice-gateway/store";
import { tagOf } from "./charge-text.ts";
import { periodOf } from "./periods.ts";
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

/** The sum of the charges of one hour that have the same names. The columns of `hours` have the same order. */
interface HourSum {
  readonly hour: number;
  readonly workspace: number;
  readonly key: number;
  readonly surface: number;
  readonly method: number;
  readonly model: number;
  readonly route: number;
  readonly tag: string;
  calls: number;
  included: number;
  purchased: number;
  overage: number;
  inputTokens: number;
  outputTokens: number;
  cachedTokens: number;
  reasoningTokens: number;
}

const amounts = [
  "calls",
  "included",
  "purchased",
  "overage",
  "input_tokens",
  "output_tokens",
  "cached_tokens",
  "reasoning_tokens",
] as const;

/** Number of sums after which a checkpoint is due, because clients choose tags, and the sums are in memory. */
const maxHourSums = 50_000;
const hourMs = monthWindow.stepMs;

export class Sums {
  readonly #hours = new Map<string, HourSum>();
  /** Milli-CU by minute, then by key. */
  readonly #minutes = new Map<number, Map<number, number>>();
  readonly #intents: Map<number, OpenIntent>;
  /** Time of the newest record that was added, in milliseconds since 1970. */
  newest = 0;
  #dirty = false;

  private constructor(intents: Map<number, OpenIntent>) {
    this.#intents = intents;
  }

  /** Loads the intents that were open at the last checkpoint. */
  static load(db: DatabaseSync): Sums {
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
    return new Sums(intents);
  }

  get openIntents(): ReadonlyMap<number, unknown> {
    return this.#intents;
  }

  /** True if records were added since the last `write`. */
  get dirty(): boolean {
    return this.#dirty;
  }

  /** True if the sums use so much memory that they should be written now. */
  get isLarge(): boolean {
    return this.#hours.size >= maxHourSums;
  }

  add(records: Buffer): void {
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
    this.newest = Math.max(this.newest, time);
    addToMinute(this.#minutes, cursor);
    const sum = this.#hourSum(cursor, Math.floor(time / hourMs));
    sum.calls++;
    sum.included += cursor.float(at.charge.included);
    sum.purchased += cursor.float(at.charge.purchased);
    sum.overage += cursor.float(at.charge.overage);
    sum.inputTokens += cursor.float(at.charge.inputTokens);
    sum.outputTokens += cursor.float(at.charge.outputTokens);
    sum.cachedTokens += cursor.cachedTokens;
    sum.reasoningTokens += cursor.reasoningTokens;
    const intent = cursor.float(at.charge.intent);
    if (intent !== 0) this.#intents.delete(intent);
  }

  #hourSum(cursor: RecordCursor, hour: number): HourSum {
    const workspace = cursor.uint(at.charge.workspace);
    const key = cursor.uint(at.charge.key);
    const surface = cursor.uint(at.charge.surface);
    const method = cursor.uint(at.charge.method);
    const model = cursor.uint(at.charge.model);
    const { route } = cursor;
    const tag = cursor.hasLines(at.charge.text) ? tagOf(cursor.text(at.charge.text)) : "";
    const place = `${hour} ${workspace} ${key} ${surface} ${method} ${model} ${route} ${tag}`;
    const known = this.#hours.get(place);
    if (known !== undefined) return known;
    const names = { hour, workspace, key, surface, method, model, route, tag };
    const made: HourSum = {
      ...names,
      calls: 0,
      included: 0,
      purchased: 0,
      overage: 0,
      inputTokens: 0,
      outputTokens: 0,
      cachedTokens: 0,
      reasoningTokens: 0,
    };
    this.#hours.set(place, made);
    return made;
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
      this.writeHours(db, "main.hours", `ON CONFLICT DO UPDATE SET ${amounts.map(exactSum).join(", ")}`);
      writeDerived(db, this.#hours.values(), this.newest);
      writeMinutes(db, this.#minutes, this.newest);
      writeIntents(db, this.#intents);
      db.prepare("UPDATE checkpoint SET seq = ?").run(seq);
    });
  }

  /** Inserts the sums by hour into a table with the columns of `hours`. `onConflict`: what happens to existing rows. */
  writeHours(db: DatabaseSync, table: string, onConflict = ""): void {
    const insert = db.prepare(
      `INSERT INTO ${table} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ${onConflict}`,
    );
    for (const sum of this.#hours.values()) {
      const { hour, workspace, key, surface, method, model, route, tag, calls } = sum;
      insert.run(
        ...[hour, workspace, key, surface, method, model, route, tag, calls],
        ...[sum.included, sum.purchased, sum.overage].map(exact),
        ...[sum.inputTokens, sum.outputTokens, sum.cachedTokens, sum.reasoningTokens].map(exact),
      );
    }
  }

  /** Clears the sums that `write` has written, after they are on disk. */
  written(): void {
    this.#hours.clear();
    this.#minutes.clear();
    this.#dirty = false;
  }
}

/** Adds the charge at the cursor to its minute. */
export function addToMinute(
  minutes: Map<number, Map<number, number>>,
  cursor: RecordCursor,
): void {
  const step = Math.floor(cursor.float(at.charge.time) / dayWindow.stepMs);
  let keys = minutes.get(step);
  if (keys === undefined) {
    keys = new Map();
    minutes.set(step, keys);
  }
  const key = cursor.uint(at.charge.key);
  keys.set(key, (keys.get(key) ?? 0) + cursor.costMilliCu);
}

/** Adds to the sums of the hours of keys, and of the months of workspaces. */
function writeDerived(db: DatabaseSync, sums: Iterable<HourSum>, newest: number): void {
  const addToKey = db.prepare(
    `INSERT INTO key_hours VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET ${exactSum("cu_milli")}`,
  );
  const addToMonth = db.prepare(
    `INSERT INTO periods VALUES (?, ?, ?, ?, ?)
     ON CONFLICT DO UPDATE SET ${["included", "purchased", "overage"].map(exactSum).join(", ")}`,
  );
  for (const { hour, key, workspace, included, purchased, overage } of sums) {
    addToKey.run(hour, key, exact(included + purchased + overage));
    const month = periodOf(hour * hourMs).start;
    addToMonth.run(month, workspace, exact(included), exact(purchased), exact(overage));
  }
  db.prepare("DELETE FROM key_hours WHERE step < ?").run(oldestStep(newest, monthWindow));
}

/** Adds to the sums of the minutes, and deletes those that have left the window at `newest`. */
export function writeMinutes(
  db: DatabaseSync,
  minutes: ReadonlyMap<number, ReadonlyMap<number, number>>,
  newest: number,
): void {
  const add = db.prepare(
    `INSERT INTO minutes VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET ${exactSum("cu_milli")}`,
  );
  for (const [step, keys] of minutes) {
    for (const [key, sum] of keys) add.run(step, key, exact(sum));
  }
  db.prepare("DELETE FROM minutes WHERE step < ?").run(oldestStep(newest, dayWindow));
}

function oldestStep(
  newest: number,
  { stepMs, steps }: { readonly stepMs: number; readonly steps: number },
): number {
  return Math.floor(newest / stepMs) - steps;
}

/**
 * Limits a sum to the largest exact number. A larger one could not be read back as a number, and a much larger one
 * could not be written.
 */
function exact(sum: number): number {
  return Math.min(sum, Number.MAX_SAFE_INTEGER);
}

/** Returns the SQL that adds to a column with the same limit as `exact`. */
export function exactSum(column: string): string {
  return `${column} = min(${Number.MAX_SAFE_INTEGER}, ${column} + excluded.${column})`;
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
