import type { Clock } from "../../contract/clock.ts";
import type { RunSql, SqlRow } from "../../contract/sql.ts";
import type { Batch, Outcome, Statement } from "./sqlite-thread.ts";
import { storeErrorOf, type StateThread } from "./state-thread.ts";
import { runWork } from "./work.ts";

export type Work = (run: RunSql) => Promise<unknown>;

export interface Unit {
  readonly work: Statement | Work;
  readonly settle: (result: Result) => void;
}

export type Result = { readonly value: unknown } | { readonly error: unknown };

/** Time limit of a transaction, because everything else waits for it. */
const transactionMs = 5_000;

/**
 * Runs the units one after the other, and settles them when the transaction is committed. Each transaction has a
 * savepoint, so that it can fail alone. Statements that only read need no transaction. Never rejects.
 */
export async function runGroup(
  thread: StateThread,
  units: readonly Unit[],
  clock: Clock,
): Promise<void> {
  const group = new Group(thread, clock, !units.every(onlyReads));
  const results: Result[] = [];
  try {
    for (const [index, { work }] of units.entries()) {
      if (typeof work === "function") results[index] = await runAlone(group, work, clock);
      else group.add(work, (outcome) => (results[index] = resultOf(outcome)));
    }
    await group.end();
  } catch (error) {
    for (const { settle } of units) settle({ error });
    return;
  }
  for (const [index, { settle }] of units.entries()) {
    settle(results[index] ?? { error: new Error("the statement has no result") });
  }
}

/** Throws for a value that cannot be sent to the thread, because it would fail the statements beside it, too. */
export function assertStorable(values: readonly unknown[]): void {
  for (const value of values) {
    if (typeof value === "function" || typeof value === "symbol" || isOtherObject(value)) {
      throw new TypeError(`a value of a statement is ${typeof value}, not a text, number or bytes`);
    }
  }
}

function isOtherObject(value: unknown): boolean {
  return typeof value === "object" && value !== null && !(value instanceof Uint8Array);
}

function onlyReads({ work }: Unit): boolean {
  return typeof work !== "function" && work.text.startsWith("SELECT");
}

function resultOf(outcome: Outcome): Result {
  return "failure" in outcome ? { error: storeErrorOf(outcome.failure) } : { value: outcome.rows };
}

async function runAlone(group: Group, work: Work, clock: Clock): Promise<Result> {
  group.add(control("SAVEPOINT work"));
  let hasEnded = false;
  const run: RunSql = async (text, values = []) => {
    if (hasEnded) throw new Error("the transaction has ended");
    assertStorable(values);
    const { promise, resolve } = Promise.withResolvers<Outcome>();
    group.add({ text, values }, resolve);
    await group.send();
    const result = resultOf(await promise);
    if ("error" in result) throw result.error;
    // The result of a statement is always its rows.
    return result.value as readonly SqlRow[];
  };
  const late = (): Error => new Error(`a transaction took longer than ${transactionMs} ms`);
  const result = await runWork(run, work, { clock, ms: transactionMs, late }).then(
    (value): Result => ({ value }),
    (error: unknown): Result => ({ error }),
  );
  hasEnded = true;
  if ("error" in result) group.add(control("ROLLBACK TO work"));
  group.add(control("RELEASE work"));
  return result;
}

function control(text: string): Statement {
  return { text, values: [] };
}

/** The statements of one group, which are sent in as few batches as possible. */
class Group {
  readonly #thread: StateThread;
  readonly #clock: Clock;
  readonly #writes: boolean;
  #mode: Batch["mode"];
  #unsent: { readonly statement: Statement; readonly done: (outcome: Outcome) => void }[] = [];
  #failure: { readonly error: unknown } | undefined;

  constructor(thread: StateThread, clock: Clock, writes: boolean) {
    this.#thread = thread;
    this.#clock = clock;
    this.#writes = writes;
    this.#mode = writes ? "begin" : "read";
  }

  add(statement: Statement, done: (outcome: Outcome) => void = () => {}): void {
    this.#unsent.push({ statement, done });
  }

  /** Rejects with StoreError if the transaction fails or has failed before. */
  async send(commits = false): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure.error;
    const sent = this.#unsent;
    this.#unsent = [];
    const mode = this.#mode;
    if (this.#writes) this.#mode = "continue";
    try {
      const statements = sent.map((each) => each.statement);
      const now = this.#clock.now();
      const outcomes = await this.#thread.run({ now, mode, statements, commits });
      for (const [index, { done }] of sent.entries()) {
        const outcome = outcomes[index];
        if (outcome !== undefined) done(outcome);
      }
    } catch (error) {
      this.#failure ??= { error };
      throw error;
    }
  }

  async end(): Promise<void> {
    await this.send(this.#writes);
  }
}
