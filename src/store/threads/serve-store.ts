import type { RunSql } from "../../contract/sql.ts";
import type { Store } from "../../contract/store.ts";
import type { Threads } from "../../contract/threads.ts";

/** A request to the main thread. `id`: that of a transaction, which the thread has chosen. */
export type StoreCall =
  | { readonly kind: "query"; readonly lane: string; readonly statement: Statement }
  | { readonly kind: "begin"; readonly lane: string; readonly id: string }
  | { readonly kind: "run"; readonly id: string; readonly statement: Statement }
  /** `isFailed`: the changes are dropped. */
  | { readonly kind: "end"; readonly id: string; readonly isFailed: boolean };

type Statement = Parameters<RunSql>;

export const storeCall = "store";

interface Transaction {
  readonly thread: number;
  readonly begun: Promise<RunSql>;
  /** Ends it. It is rolled back if `error` is defined, even if it has not begun yet. */
  readonly end: (error: Error | undefined) => void;
  /** Settles when it is committed or rolled back. */
  readonly done: Promise<void>;
}

export function serveStore(threads: Threads, sql: Store["sql"]): Disposable {
  const open = new Map<string, Transaction>();
  const begin = async (id: string, lane: string, thread: number): Promise<void> => {
    const begun = Promise.withResolvers<RunSql>();
    const ended = Promise.withResolvers<void>();
    const done = sql(lane).transaction(async (run) => {
      begun.resolve(run);
      await ended.promise;
    });
    const end = (error: Error | undefined): void =>
      error === undefined ? ended.resolve() : ended.reject(error);
    open.set(id, { thread, begun: begun.promise, end, done });
    ended.promise.catch(() => {});
    // The end of the transaction reports what `done` rejects with.
    done.catch((error: unknown) => begun.reject(error)).finally(() => open.delete(id));
    await begun.promise;
  };
  const find = (id: string): Transaction => {
    const found = open.get(id);
    if (found === undefined) throw new Error("the transaction has ended");
    return found;
  };
  const answer = async (call: StoreCall, from: number): Promise<unknown> => {
    if (call.kind === "query") return sql(call.lane).query(...call.statement);
    if (call.kind === "begin") return begin(call.id, call.lane, from);
    const { begun, end, done } = find(call.id);
    if (call.kind === "run") return (await begun)(...call.statement);
    end(call.isFailed ? new Error("the thread has ended the transaction") : undefined);
    return done;
  };
  const stack = new DisposableStack();
  // Only src/store/threads/thread-store.ts makes these calls.
  stack.use(threads.serve(storeCall, (value, from) => answer(value as StoreCall, from)));
  stack.use(
    threads.onEnded((thread) => {
      for (const transaction of open.values()) {
        if (transaction.thread === thread) transaction.end(new Error("the thread has ended"));
      }
    }),
  );
  return stack;
}
