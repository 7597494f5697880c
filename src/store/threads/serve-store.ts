import type { RunSql } from "../../contract/sql.ts";
import type { Store } from "../../contract/store.ts";
import type { Threads } from "../../contract/threads.ts";
import {
  beginCall,
  endCall,
  queryCall,
  runCall,
  type Begun,
  type Ended,
  type Statement,
} from "./store-calls.ts";

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
  const begin = async ({ id, lane }: Begun, thread: number): Promise<void> => {
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
  const stack = new DisposableStack();
  // Only src/store/threads/thread-store.ts makes these calls.
  stack.use(
    threads.serve(queryCall, (value) => {
      const { lane, text, values } = value as Statement & { readonly lane: string };
      return sql(lane).query(text, values);
    }),
  );
  stack.use(threads.serve(beginCall, (value, from) => begin(value as Begun, from)));
  stack.use(
    threads.serve(runCall, async (value) => {
      const { id, text, values } = value as Statement & { readonly id: string };
      const run = await find(id).begun;
      return run(text, values);
    }),
  );
  stack.use(
    threads.serve(endCall, async (value) => {
      const { id, isFailed } = value as Ended;
      const { end, done } = find(id);
      end(isFailed ? new Error("the thread has ended the transaction") : undefined);
      await done;
    }),
  );
  stack.use(
    threads.onEnded((thread) => {
      for (const transaction of open.values()) {
        if (transaction.thread === thread) transaction.end(new Error("the thread has ended"));
      }
    }),
  );
  return stack;
}
