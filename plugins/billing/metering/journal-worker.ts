/** The journal thread: commits the records of each message, and reports it. */
import { parentPort, workerData } from "node:worker_threads";
import { explain, type StoreErrorCode } from "sluice-gateway/store";
import { JournalFile } from "./journal-file.ts";
import { chargesPath } from "./journal-schema.ts";

export interface JournalWorkerData {
  readonly dataDir: string;
  /** Only for tests: maximum size of the journal in pages of 4 KiB; writes beyond it fail with SQLITE_FULL. */
  readonly maxPages?: number | undefined;
}

/** The records of a commit, or a command. `probe`: find out whether the disk has room. */
export type JournalCommand = Uint8Array<ArrayBuffer> | "probe" | "close";

export type JournalMessage =
  | { readonly kind: "ready" }
  /** The records are on disk. `ms`: duration of the commit. */
  | { readonly kind: "committed"; readonly ms: number }
  /** The records are not on disk, or the probe has failed. */
  | {
      readonly kind: "failed";
      readonly code: StoreErrorCode;
      readonly message: string;
      readonly remedy: string;
    }
  /** The probe has succeeded. */
  | { readonly kind: "recovered" };

// Only `Journal.open` starts this thread, with exactly this data.
const { dataDir, maxPages } = workerData as JournalWorkerData;

const port = parentPort;
try {
  const file = JournalFile.open(dataDir, maxPages);
  port?.on("message", (command: JournalCommand) => run(file, command));
  post({ kind: "ready" });
} catch (error) {
  postFailure(error);
}

function run(file: JournalFile, command: JournalCommand): void {
  try {
    if (command === "probe") {
      file.probe();
      post({ kind: "recovered" });
    } else if (command === "close") {
      port?.close();
      file.checkpoint();
      file.close();
    } else {
      const started = performance.now();
      file.append(Buffer.from(command.buffer));
      post({ kind: "committed", ms: performance.now() - started });
    }
  } catch (error) {
    postFailure(error);
  }
}

function post(message: JournalMessage): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- parentPort is not a window
  port?.postMessage(message);
}

function postFailure(error: unknown): void {
  const { code, message, remedy } = explain(error, chargesPath(dataDir));
  // Every StoreError is created with one of these codes.
  post({ kind: "failed", code: code as StoreErrorCode, message, remedy });
}
