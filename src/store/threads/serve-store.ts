/** Runs the statements of the other threads on the tables of the main thread. */
import type { RunSql } from "../../contract/sql.ts";
import type { Store } from "../../contract/store.ts";
import type { Threads } from "../../contract/threads.ts";
import {
  beginCall,
  endCall,
  queryCall,
  runCall,
  type Ended,
  type Statement,
} from "./store-calls.ts";

/** A transaction whose statements come from another thread. */
interface Transaction {
  readonly thread: number;
  readonly run: RunSql;
  /** Ends it. It is rolled back if `error` is defined. */
  readonly end: (error: Error | undefined) => void;
  /** Settles when it is committed or rolled back. */
  readonly done: Promise<void>;
}

export function serveStore(threads: Threads, sql: Store["sql"]): Disposable {
  const open = new Map<number, Transaction>();
  let lastId = 0;
  const begin = async (lane: string, thread: number): Promise<number> => {
    const id = ++lastId;
    const started = Promise.withResolvers<void>();
    const done = sql(lane).transaction(async (run) => {
      const ended = Promise.withResolvers<void>();
      const end = (error: Error | undefined): void =>
        error === undefined ? ended.resolve() : ended.reject(error);
      open.set(id, { thread, run, end, done });
      started.resolve();
      await ended.promise;
    });
    // The end of the transaction reports what `done` rejects with.
    done.catch((error: unknown) => started.reject(error)).finally(() => open.delete(id));
    await started.promise;
    return id;
  };
  const find = (id: number): Transaction => {
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
  stack.use(threads.serve(beginCall, (lane, from) => begin(String(lane), from)));
  stack.use(
    threads.serve(runCall, (value) => {
      const { id, text, values } = value as Statement & { readonly id: number };
      return find(id).run(text, values);
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
