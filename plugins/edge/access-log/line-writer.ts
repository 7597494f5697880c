import { closeSync, openSync } from "node:fs";
import { stat } from "node:fs/promises";
import { pino } from "pino";
import type { Clock } from "sluice-gateway/plugin";

/** Buffered text is written at this size, which is one write for about two hundred lines. */
const flushChars = 64 * 1024;
/** Maximum time until buffered text is written, for users who follow the file. */
const flushMs = 250;
/** Interval at which the file is checked, because log rotation renames it and expects a new file. */
const checkMs = 1_000;
/** Further lines that wait for a slow disk are discarded and reported. */
const maxWaitingBytes = 16 * 1024 * 1024;

const fileMode = 0o640;

export interface WriteErrors {
  /** Called when a write fails, only once until a write succeeds. The text is retried with the next write. */
  failed(error: Error): void;
  dropped(lines: number): void;
}

export interface LineWriter {
  /** `line`: text without a line feed. Never waits and never throws. */
  write(line: string): void;
  /** Resolves when the buffered lines are written, or cannot be. */
  close(): Promise<void>;
}

/**
 * Opens `file` for appending (created with mode 0640), or standard output. Throws the errors of `open`. A file that was
 * renamed or removed is created again within a second; lines until then are in the old file.
 */
export function openLines(file: string | undefined, clock: Clock, errors: WriteErrors): LineWriter {
  if (file !== undefined) closeSync(openSync(file, "a", fileMode));
  const destination = pino.destination({
    dest: file ?? 1,
    mode: fileMode,
    sync: false,
    maxLength: maxWaitingBytes,
    maxWrite: 1024 * 1024,
  });
  let gathered = "";
  let isFailing = false;
  let isClosed = false;
  let isClosing = false;
  const flush = (): void => {
    if (gathered === "" || isClosed) return;
    const text = gathered;
    gathered = "";
    destination.write(text);
  };
  destination.on("error", (error: NodeJS.ErrnoException) => {
    // After EPIPE, the destination ignores everything, including `end`.
    isClosed ||= error.code === "EPIPE";
    if (!isFailing) errors.failed(error);
    isFailing = true;
  });
  // pino itself closes its destinations when the process ends because the event loop is empty.
  destination.on("close", () => {
    isClosed = true;
  });
  destination.on("write", () => {
    isFailing = false;
  });
  destination.on("drop", (text: string) => errors.dropped(text.split("\n").length - 1));
  const timer = clock.every(flushMs, flush);
  const check =
    file === undefined
      ? undefined
      : clock.every(
          checkMs,
          reopener(file, destination, () => isClosed || isClosing),
        );
  return {
    write(line) {
      gathered += `${line}\n`;
      if (gathered.length >= flushChars) flush();
    },
    async close() {
      isClosing = true;
      timer[Symbol.dispose]();
      check?.[Symbol.dispose]();
      flush();
      if (isClosed) return;
      const ended = Promise.withResolvers<void>();
      destination.once("close", ended.resolve);
      destination.once("error", ended.resolve);
      destination.end();
      await ended.promise;
      // Closes the file after an error. Does nothing if it is already closed.
      destination.destroy();
    },
  };
}

function reopener(
  file: string,
  destination: ReturnType<typeof pino.destination>,
  isOver: () => boolean,
): () => void {
  let inode: number | undefined;
  let isChecking = false;
  let isReopening = true;
  const opened = (ino: number | undefined): void => {
    inode = ino;
    isReopening = false;
  };
  destination.on("ready", () => {
    stat(file).then(
      ({ ino }) => opened(ino),
      () => opened(undefined),
    );
  });
  // If the file could not be opened, the next check tries again.
  destination.on("error", () => opened(inode));
  const compare = (found: number | undefined): void => {
    isChecking = false;
    if (found !== undefined && found === inode) return;
    if (isOver() || isReopening) return;
    isReopening = true;
    destination.reopen(file);
  };
  return () => {
    if (isChecking) return;
    isChecking = true;
    stat(file).then(
      ({ ino }) => compare(ino),
      () => compare(undefined),
    );
  };
}
