/** `Sql` on the file `state.db`. One thread runs the statements. Those that wait at the same time share a commit. */
import type { Clock } from "../../contract/clock.ts";
import type { RunSql, Sql, SqlRow } from "../../contract/sql.ts";
import { explain } from "../store-error.ts";
import { assertStorable, runGroup, type Result, type Unit } from "./group.ts";
import type { StateFile } from "./state-file.ts";
import { openStateThread } from "./state-thread.ts";

export interface SqliteSql extends Sql {
  /** Finishes all statements and transactions, and resolves when the file is closed. Later ones fail. */
  close(): Promise<void>;
}

const maxWaiting = 10_000;

/** `clock`: gives the time of the store. Rejects with StoreError if the file cannot be used. */
export async function openSqliteSql(state: StateFile, clock: Clock): Promise<SqliteSql> {
  const thread = await openStateThread(state);
  let waiting: Unit[] = [];
  let running: Promise<void> | undefined;
  let isClosed = false;

  const runGroups = async (): Promise<void> => {
    // Statements that are requested in the same turn belong to one group.
    await Promise.resolve();
    while (waiting.length > 0) {
      const units = waiting;
      waiting = [];
      await runGroup(thread, units, clock);
    }
    running = undefined;
  };
  const refused = (reason: string): Promise<never> =>
    Promise.reject(explain(new Error(reason), state.file));
  const add = (work: Unit["work"]): Promise<unknown> => {
    if (isClosed) return refused("the gateway has stopped");
    if (waiting.length >= maxWaiting) return refused(`${maxWaiting} statements are waiting`);
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const settle = (result: Result): void =>
      "error" in result ? reject(result.error) : resolve(result.value);
    waiting.push({ work, settle });
    running ??= runGroups();
    return promise;
  };
  return {
    // A statement resolves to its rows, and a transaction to what its work returned.
    async query(text, values = []) {
      assertStorable(values);
      return (await add({ text, values })) as readonly SqlRow[];
    },
    transaction: <T>(work: (run: RunSql) => Promise<T>) => add(work) as Promise<T>,
    async close() {
      isClosed = true;
      await running;
      await thread.close();
    },
  };
}
