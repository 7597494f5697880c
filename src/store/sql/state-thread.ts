import { Worker } from "node:worker_threads";
import { threadModule } from "../../base/package-files.ts";
import { explain, StoreError } from "../store-error.ts";
import type { Batch, BatchResult, Failure, Outcome } from "./sqlite-thread.ts";
import type { StateFile } from "./state-file.ts";

export interface StateThread {
  /** Runs a batch after those before it. Rejects with StoreError if its transaction has failed. */
  run(batch: Batch): Promise<readonly Outcome[]>;
  close(): Promise<void>;
}

const threadUrl = threadModule("src/store/sql/sqlite-thread");

/** Rejects with StoreError. */
export async function openStateThread(state: StateFile): Promise<StateThread> {
  /** The batches without an answer, in the order in which they were sent. The first entry is the opening of the file. */
  const waiting: PromiseWithResolvers<readonly Outcome[]>[] = [];
  const worker = new Worker(new URL(threadUrl), { workerData: state });
  const exited = Promise.withResolvers<void>();
  let lost: StoreError | undefined;
  let cause: unknown = new Error("its thread has ended");
  worker.on("message", (result: BatchResult) => {
    const first = waiting.shift();
    if ("failure" in result) first?.reject(storeErrorOf(result.failure));
    else first?.resolve(result.outcomes);
  });
  worker.on("error", (error: unknown) => (cause = error));
  worker.on("exit", () => {
    lost = explain(cause, state.file);
    for (const each of waiting.splice(0)) each.reject(lost);
    exited.resolve();
  });
  const answered = (): Promise<readonly Outcome[]> => {
    const answer = Promise.withResolvers<readonly Outcome[]>();
    waiting.push(answer);
    return answer.promise;
  };
  await answered();
  return {
    async run(batch) {
      if (lost !== undefined) throw lost;
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread is not a window
      worker.postMessage(batch);
      return answered();
    },
    async close() {
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread is not a window
      worker.postMessage(undefined);
      await exited.promise;
    },
  };
}

export function storeErrorOf({ code, message, remedy }: Failure): StoreError {
  return new StoreError(code, message, remedy);
}
