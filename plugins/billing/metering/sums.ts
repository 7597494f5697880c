/**
 * The sums of the records since the last checkpoint: the charges by hour, by key and minute, and the open intents. The
 * thread of the charges adds every commit to them and writes them once per minute, in one transaction with a commit. A
 * start reads the sums and replays at most the records of the last minute; readers add the charges since the
 * checkpoint.
 */
import type { DatabaseSync } from "node:sqlite";
import { number, transaction } from "sluice-gateway/internal/store";
import { tagOf } from "./charge-text.ts";
import { periodOf } from "../leases/months.ts";
import { at, kind, RecordCursor } from "./records.ts";
import { dayWindow, monthWindow, type WindowShape } from "./windows.ts";

/** The values of a row of `open_intents`. */
type OpenIntent = readonly (number | string)[];

type Names = readonly [hour: number, workspace: number, key: number, ...rest: (number | string)[]];

/** The sum of the charges of one hour that have the same names. */
interface HourSum {
  /** The values of the key of `hours`, in the order of its columns: the hour, the numbers of names, and the tag. */
  readonly names: Names;
  /** In the order of `amounts`. */
  readonly amounts: number[];
  /** Another sum whose names have the same hash. */
  readonly next: HourSum | undefined;
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

/** Milli-CU by step, then by key. */
type Steps = Map<number, Map<number, number>>;

export class Sums {
  readonly #hours: HourSum[] = [];
  /**
   * The sums without a tag by hash, because a text as the key would double the CPU time of a charge in this thread.
   * Those with a tag are found by text: clients choose tags, and could choose many with the same hash.
   */
  readonly #byHash = new Map<number | string, HourSum>();
  readonly #minutes: Steps = new Map();
  readonly #intents: Map<number, OpenIntent>;
  /** Time of the newest record that was added, in milliseconds since 1970. */
  newest = 0;
  #dirty = false;

  private constructor(intents: Map<number, OpenIntent>) {
    this.#intents = intents;
  }

  static load(db: DatabaseSync): Sums {
    const intents = new Map<number, OpenIntent>();
    for (const row of db.prepare("SELECT * FROM open_intents").iterate()) {
      // The columns are numbers and a text.
      intents.set(number(row, "intent"), Object.values(row) as OpenIntent);
    }
    return new Sums(intents);
  }

  get openIntents(): ReadonlyMap<number, unknown> {
    return this.#intents;
  }

  get dirty(): boolean {
    return this.#dirty;
  }

  get isLarge(): boolean {
    return this.#hours.length >= maxHourSums;
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
    const tag = cursor.hasLines(at.charge.text) ? tagOf(cursor.text(at.charge.text)) : "";
    const names: Names = [
      Math.floor(time / hourMs),
      cursor.uint(at.charge.workspace),
      cursor.uint(at.charge.key),
      cursor.uint(at.charge.surface),
      cursor.uint(at.charge.method),
      cursor.uint(at.charge.model),
      cursor.route,
      tag,
    ];
    addTo(this.#sumOf(names, tag), [
      1,
      cursor.float(at.charge.included),
      cursor.float(at.charge.purchased),
      cursor.float(at.charge.overage),
      cursor.float(at.charge.inputTokens),
      cursor.float(at.charge.outputTokens),
      cursor.cachedTokens,
      cursor.reasoningTokens,
    ]);
    const intent = cursor.float(at.charge.intent);
    if (intent !== 0) this.#intents.delete(intent);
  }

  #sumOf(names: Names, tag: string): number[] {
    let hash: number | string = 0;
    if (tag !== "") hash = names.join(" ");
    else for (const name of names) hash = Math.imul(hash, 31) + Number(name);
    const next = this.#byHash.get(hash);
    for (let sum = next; sum !== undefined; sum = sum.next) {
      if (areEqual(sum.names, names)) return sum.amounts;
    }
    const made = { names, amounts: amounts.map(() => 0), next };
    this.#byHash.set(hash, made);
    this.#hours.push(made);
    return made.amounts;
  }

  #intent(cursor: RecordCursor): void {
    this.newest = Math.max(this.newest, cursor.float(at.intent.time));
    const intent = cursor.float(at.intent.intent);
    this.#intents.set(intent, [
      intent,
      cursor.float(at.intent.time),
      cursor.uint(at.intent.key),
      cursor.uint(at.intent.workspace),
      cursor.uint(at.intent.surface),
      cursor.float(at.intent.reserved),
      cursor.text(at.intent.text),
    ]);
  }

  /** The sums include everything up to commit `seq`. Call `written` after the transaction has committed. */
  write(db: DatabaseSync, seq: number): void {
    transaction(db, () => {
      this.writeHours(
        db,
        "main.hours",
        `ON CONFLICT DO UPDATE SET ${amounts.map(exactSum).join(", ")}`,
      );
      writeMonths(db, this.#hours);
      writeSteps(db, "key_hours", this.#keyHours(), this.newest, monthWindow);
      writeSteps(db, "minutes", this.#minutes, this.newest, dayWindow);
      writeIntents(db, this.#intents);
      db.prepare("UPDATE checkpoint SET seq = ?").run(seq);
    });
  }

  #keyHours(): Steps {
    const steps: Steps = new Map();
    for (const { names, amounts: sums } of this.#hours) {
      const [hour, , key] = names;
      addToStep(
        steps,
        hour,
        key,
        drawsOf(sums).reduce((one, other) => one + other),
      );
    }
    return steps;
  }

  writeHours(db: DatabaseSync, table: string, onConflict = ""): void {
    const insert = db.prepare(
      `INSERT INTO ${table} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ${onConflict}`,
    );
    for (const sum of this.#hours) insert.run(...sum.names, ...sum.amounts.map(exact));
  }

  written(): void {
    this.#hours.length = 0;
    this.#byHash.clear();
    this.#minutes.clear();
    this.#dirty = false;
  }
}

export function addToMinute(minutes: Steps, cursor: RecordCursor): void {
  const step = Math.floor(cursor.float(at.charge.time) / dayWindow.stepMs);
  addToStep(minutes, step, cursor.uint(at.charge.key), cursor.costMilliCu);
}

function addToStep(steps: Steps, step: number, key: number, amountMilliCu: number): void {
  let keys = steps.get(step);
  if (keys === undefined) {
    keys = new Map();
    steps.set(step, keys);
  }
  keys.set(key, (keys.get(key) ?? 0) + amountMilliCu);
}

function writeMonths(db: DatabaseSync, sums: readonly HourSum[]): void {
  const months = new Map<string, readonly [month: number, workspace: number, draws: number[]]>();
  for (const { names, amounts: added } of sums) {
    const [hour, workspace] = names;
    const month = periodOf(hour * hourMs).start;
    const place = `${month} ${workspace}`;
    const sum = months.get(place) ?? [month, workspace, [0, 0, 0]];
    addTo(sum[2], drawsOf(added));
    months.set(place, sum);
  }
  const add = db.prepare(
    `INSERT INTO periods VALUES (?, ?, ?, ?, ?)
     ON CONFLICT DO UPDATE SET ${drawsOf(amounts).map(exactSum).join(", ")}`,
  );
  for (const [month, workspace, draws] of months.values()) {
    add.run(month, workspace, ...draws.map(exact));
  }
}

/** Returns the three draws among values in the order of `amounts`. */
function drawsOf<T>(values: readonly T[]): T[] {
  return values.slice(1, 4);
}

function addTo(sums: number[], added: readonly number[]): void {
  for (let i = 0; i < added.length; i++) sums[i] = (sums[i] ?? 0) + (added[i] ?? 0);
}

function areEqual(one: readonly unknown[], other: readonly unknown[]): boolean {
  for (let i = 0; i < one.length; i++) if (one[i] !== other[i]) return false;
  return true;
}

/** Adds to the sums by key and step, and deletes those that have left the window at `newest`. */
export function writeSteps(
  db: DatabaseSync,
  table: "minutes" | "key_hours",
  sums: Steps,
  newest: number,
  { stepMs, steps }: WindowShape,
): void {
  const add = db.prepare(
    `INSERT INTO ${table} VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET ${exactSum("cu_milli")}`,
  );
  for (const [step, keys] of sums) {
    for (const [key, sum] of keys) add.run(step, key, exact(sum));
  }
  db.prepare(`DELETE FROM ${table} WHERE step < ?`).run(Math.floor(newest / stepMs) - steps);
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
  for (const values of intents.values()) insert.run(...values);
}
