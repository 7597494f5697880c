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
import { dayWindow, monthWindow, type WindowShape } from "./windows.ts";

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
  /** Another sum whose names have the same hash. */
  readonly next: HourSum | undefined;
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

/** Milli-CU by step, then by key. */
type Steps = Map<number, Map<number, number>>;

export class Sums {
  readonly #hours: HourSum[] = [];
  /**
   * The sums without a tag by hash, because a text as the key would double the CPU time of a charge in this thread. Those
   * with a tag are found by text: clients choose tags, and could choose many with the same hash.
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
    const names = [workspace, key, surface, method, model, route];
    const hash =
      tag === ""
        ? names.reduce((sum, name) => Math.imul(sum, 31) + name, hour)
        : `${hour} ${names.join(" ")} ${tag}`;
    const next = this.#byHash.get(hash);
    for (let sum = next; sum !== undefined; sum = sum.next) {
      const hasSameNames =
        sum.key === key &&
        sum.method === method &&
        sum.hour === hour &&
        sum.workspace === workspace &&
        sum.surface === surface &&
        sum.model === model &&
        sum.route === route &&
        sum.tag === tag;
      if (hasSameNames) return sum;
    }
    const made: HourSum = {
      hour,
      workspace,
      key,
      surface,
      method,
      model,
      route,
      tag,
      next,
      calls: 0,
      included: 0,
      purchased: 0,
      overage: 0,
      inputTokens: 0,
      outputTokens: 0,
      cachedTokens: 0,
      reasoningTokens: 0,
    };
    this.#byHash.set(hash, made);
    this.#hours.push(made);
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
    for (const { hour, key, included, purchased, overage } of this.#hours) {
      addToStep(steps, hour, key, included + purchased + overage);
    }
    return steps;
  }

  /** Inserts the sums by hour into a table with the columns of `hours`. `onConflict`: what happens to existing rows. */
  writeHours(db: DatabaseSync, table: string, onConflict = ""): void {
    const insert = db.prepare(
      `INSERT INTO ${table} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ${onConflict}`,
    );
    for (const sum of this.#hours) {
      const { hour, workspace, key, surface, method, model, route, tag, calls } = sum;
      const { included, purchased, overage } = sum;
      const { inputTokens, outputTokens, cachedTokens, reasoningTokens } = sum;
      const tokens = [inputTokens, outputTokens, cachedTokens, reasoningTokens];
      const sums = [calls, included, purchased, overage, ...tokens].map(exact);
      insert.run(hour, workspace, key, surface, method, model, route, tag, ...sums);
    }
  }

  /** Clears the sums that `write` has written, after they are on disk. */
  written(): void {
    this.#hours.length = 0;
    this.#byHash.clear();
    this.#minutes.clear();
    this.#dirty = false;
  }
}

/** Adds the charge at the cursor to its minute. */
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

/** Adds to the sums of the months of workspaces. */
function writeMonths(db: DatabaseSync, sums: readonly HourSum[]): void {
  const months = new Map<string, [number, number, number, number, number]>();
  for (const { hour, workspace, included, purchased, overage } of sums) {
    const month = periodOf(hour * hourMs).start;
    const sum = months.get(`${month} ${workspace}`) ?? [month, workspace, 0, 0, 0];
    sum[2] += included;
    sum[3] += purchased;
    sum[4] += overage;
    months.set(`${month} ${workspace}`, sum);
  }
  const add = db.prepare(
    `INSERT INTO periods VALUES (?, ?, ?, ?, ?)
     ON CONFLICT DO UPDATE SET ${["included", "purchased", "overage"].map(exactSum).join(", ")}`,
  );
  for (const sum of months.values()) add.run(...sum.map(exact));
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
  for (const [id, each] of intents) {
    const { at: since, key, workspace, surface, reservedMilliCu, requestId } = each;
    insert.run(id, since, key, workspace, surface, reservedMilliCu, requestId);
  }
}
