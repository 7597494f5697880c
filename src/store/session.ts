/** Polls the store: one statement every 250 ms for all watches. */
import type { Clock } from "../contract/clock.ts";
import type { Session, Watch } from "../contract/session.ts";
import type { RunSql, SqlRow } from "../contract/sql.ts";

const pollMs = 250;

/** Polls nothing. For a dry run and for tests of single plugins. */
export const noSession: Session = {
  watch: () => ({ [Symbol.dispose]: () => {} }),
  look: () => Promise.resolve(),
};

/** Polling starts with the first watch, and stops with the last one or when the session is disposed of. */
export function createSession(query: RunSql, clock: Clock): Session & Disposable {
  const watches = new Set<Watch>();
  let statement: string | undefined;
  let timer: Disposable | undefined;
  let running: Promise<void> | undefined;
  let next: Promise<void> | undefined;

  const run = async (): Promise<void> => {
    // Calls of the same turn share the poll.
    await Promise.resolve();
    next = undefined;
    const asked = [...watches];
    const values = asked.map((watch) => watch.values?.() ?? []);
    statement ??= statementOf(asked, values);
    const startedAt = clock.monotonic();
    let row: SqlRow | undefined;
    let failure: unknown;
    try {
      [row = {}] = await query(statement, values.flat());
    } catch (error) {
      failure = error;
    }
    for (const [place, watch] of asked.entries()) {
      if (watches.has(watch))
        notify(watch, row && columnsOf(row, watch, place), startedAt, failure);
    }
    if (row === undefined) throw failure;
  };
  const poll = (): Promise<void> => {
    next ??= (running ?? Promise.resolve())
      .catch(() => {})
      .then(() => {
        running = run();
        return running;
      });
    return next;
  };
  const remove = (ended: Iterable<Watch>): void => {
    for (const watch of ended) watches.delete(watch);
    statement = undefined;
    if (watches.size > 0) return;
    timer?.[Symbol.dispose]();
    timer = undefined;
  };
  return {
    watch(watch) {
      watches.add(watch);
      statement = undefined;
      timer ??= clock.every(pollMs, () => void poll().catch(() => {}));
      return { [Symbol.dispose]: () => remove([watch]) };
    },
    look: poll,
    [Symbol.dispose]: () => remove(watches),
  };
}

/** A failure of one watch does not affect the others. */
function notify(watch: Watch, row: SqlRow | undefined, startedAt: number, failure: unknown): void {
  if (row === undefined) return watch.failed(failure);
  try {
    watch.seen(row, startedAt);
  } catch (error) {
    watch.failed(error);
  }
}

const columnOf = (place: number, name: string): string => `of_${place}_${name}`;

function statementOf(watches: readonly Watch[], values: readonly (readonly unknown[])[]): string {
  let first = 0;
  const tables: string[] = [];
  const columns = ["sluice.now_ms() AS now"];
  for (const [place, watch] of watches.entries()) {
    const before = first;
    const numbered = (text: string): string =>
      text.replaceAll(/\$(\d+)/g, (_, number) => `$${before + Number(number)}`);
    if (watch.with !== undefined) tables.push(numbered(watch.with));
    for (const [name, expression] of Object.entries(watch.columns)) {
      columns.push(`${numbered(expression)} AS ${columnOf(place, name)}`);
    }
    first += values[place]?.length ?? 0;
  }
  const head = tables.length === 0 ? "" : `WITH ${tables.join(", ")} `;
  return `${head}SELECT ${columns.join(", ")}`;
}

function columnsOf(row: SqlRow, watch: Watch, place: number): SqlRow {
  const names = Object.keys(watch.columns);
  return {
    now: row["now"],
    ...Object.fromEntries(names.map((name) => [name, row[columnOf(place, name)]])),
  };
}
