/** The tables of the main thread, in another thread. */
import { randomUUID } from "node:crypto";
import type { Clock } from "../../contract/clock.ts";
import type { Sql, SqlRow } from "../../contract/sql.ts";
import type { Session } from "../../contract/session.ts";
import type { Threads } from "../../contract/threads.ts";
import { messageOf } from "../../base/message-of.ts";
import { createSession } from "../session.ts";
import { StoreError, type StoreErrorCode } from "../store-error.ts";
import { beginCall, endCall, queryCall, runCall, type Begun } from "./store-calls.ts";

interface ThreadStore {
  readonly sql: (lane: string) => Sql;
  readonly session: Session & Disposable;
}

export function storeOverThreads(threads: Threads, clock: Clock): ThreadStore {
  const ask = async (name: string, value: unknown): Promise<unknown> => {
    try {
      return await threads.call(name, value);
    } catch (error) {
      throw storeError(error);
    }
  };
  // The main thread answers statements with their rows.
  const rowsOf = async (name: string, value: unknown): Promise<readonly SqlRow[]> =>
    (await ask(name, value)) as readonly SqlRow[];
  const sql = (lane: string): Sql => ({
    query: (text, values = []) => rowsOf(queryCall, { lane, text, values }),
    async transaction(work) {
      const id = randomUUID();
      try {
        await ask(beginCall, { id, lane } satisfies Begun);
        const result = await work((text, values = []) => rowsOf(runCall, { id, text, values }));
        await ask(endCall, { id, isFailed: false });
        return result;
      } catch (error) {
        await ask(endCall, { id, isFailed: true }).catch(() => {});
        throw error;
      }
    },
  });
  return { sql, session: createSession(sql("session").query, clock) };
}

function storeError(error: unknown): StoreError {
  const { code, remedy } = error as { code?: string; remedy?: string };
  return new StoreError(
    (code ?? "SLUICE_STORE_FAILED") as StoreErrorCode,
    messageOf(error),
    remedy ?? "The main thread has not answered. See the log for the reason.",
    error,
  );
}
