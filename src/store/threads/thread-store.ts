/** The tables of the main thread, in another thread. */
import { randomUUID } from "node:crypto";
import type { Clock } from "../../contract/clock.ts";
import type { Sql, SqlRow } from "../../contract/sql.ts";
import type { Session } from "../../contract/session.ts";
import type { Threads } from "../../contract/threads.ts";
import { messageOf } from "../../base/message-of.ts";
import { createSession } from "../session.ts";
import { StoreError, type StoreErrorCode } from "../store-error.ts";
import { storeCall, type StoreCall } from "./serve-store.ts";

interface ThreadStore {
  readonly sql: (lane: string) => Sql;
  readonly session: Session & Disposable;
}

export function storeOverThreads(threads: Threads, clock: Clock): ThreadStore {
  const ask = async (call: StoreCall): Promise<readonly SqlRow[]> => {
    try {
      // The main thread answers statements with their rows.
      return (await threads.call(storeCall, call)) as readonly SqlRow[];
    } catch (error) {
      throw storeError(error);
    }
  };
  const sql = (lane: string): Sql => ({
    query: (...statement) => ask({ kind: "query", lane, statement }),
    async transaction(work) {
      const id = randomUUID();
      try {
        await ask({ kind: "begin", id, lane });
        const result = await work((...statement) => ask({ kind: "run", id, statement }));
        await ask({ kind: "end", id, isFailed: false });
        return result;
      } catch (error) {
        await ask({ kind: "end", id, isFailed: true }).catch(() => {});
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
