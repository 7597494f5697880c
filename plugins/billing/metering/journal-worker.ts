/**
 * The journal thread: commits records and reports it, in a loop. It blocks only in `Atomics.wait` and in SQLite, so no
 * other code can run in this thread. A message to the thread instead would cost the main thread several µs per commit.
 */
import { parentPort, workerData } from "node:worker_threads";
import { explain, type StoreErrorCode } from "sluice-gateway/internal/store";
import { JournalFile } from "./journal-file.ts";
import { chargesPath } from "./journal-schema.ts";

export interface JournalWorkerData {
  readonly dataDir: string;
  readonly maxPages?: number | undefined;
  /** The records of the next commit. The thread reads them while it writes. */
  readonly records: SharedArrayBuffer;
  /** The words below, all Int32. */
  readonly control: SharedArrayBuffer;
}

/**
 * `command`: the last command plus 4 times the number of commands so far; the thread waits for its change. `bytes`:
 * length of the records. `commits`: number of commits on disk since the start; the main thread waits for its change,
 * because a message would cost both threads more. `micros`: duration of the last one.
 */
export const word = { command: 0, bytes: 1, commits: 2, micros: 3 } as const;
export const command = { write: 1, probe: 2, close: 3 } as const;

export type JournalMessage =
  | { readonly kind: "ready" }
  /** The records are not on disk, or the probe has failed. */
  | {
      readonly kind: "failed";
      readonly code: StoreErrorCode;
      readonly message: string;
      readonly remedy: string;
    }
  | { readonly kind: "recovered" };

if (parentPort !== null) start();

function start(): void {
  // Only `Journal.open` starts this thread, with exactly this data.
  const { dataDir, maxPages, records, control } = workerData as JournalWorkerData;
  let file: JournalFile | undefined;
  try {
    file = JournalFile.open(dataDir, maxPages);
    post({ kind: "ready" });
    run(file, dataDir, records, new Int32Array(control));
    file.checkpoint();
  } catch (error) {
    postFailure(error, dataDir);
  } finally {
    file?.[Symbol.dispose]();
    parentPort?.close();
  }
}

function run(
  file: JournalFile,
  dataDir: string,
  records: SharedArrayBuffer,
  control: Int32Array,
): void {
  for (let seen = 0; ;) {
    Atomics.wait(control, word.command, seen);
    seen = Atomics.load(control, word.command);
    const received = seen & 3;
    if (received === command.close) return;
    try {
      if (received === command.probe) {
        file.probe();
        post({ kind: "recovered" });
        continue;
      }
      const started = performance.now();
      const bytes = new Uint8Array(records, 0, Atomics.load(control, word.bytes));
      file.append(Buffer.from(bytes));
      Atomics.store(control, word.micros, Math.round(1000 * (performance.now() - started)));
      Atomics.add(control, word.commits, 1);
      Atomics.notify(control, word.commits);
    } catch (error) {
      postFailure(error, dataDir);
    }
  }
}

function post(message: JournalMessage): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- parentPort is not a window
  parentPort?.postMessage(message);
}

function postFailure(error: unknown, dataDir: string): void {
  const { code, message, remedy } = explain(error, chargesPath(dataDir));
  // Every StoreError is created with one of these codes.
  post({ kind: "failed", code: code as StoreErrorCode, message, remedy });
}
