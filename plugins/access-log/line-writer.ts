/** Lines on their way to a file or standard output: gathered here, written by pino's asynchronous destination. */
import { openSync } from "node:fs";
import { pino } from "pino";
import type { Clock } from "sluice-gateway/plugin";

/** Gathered text is handed on at this size: one write for some two hundred lines. */
const gatherChars = 64 * 1024;
/** … and at the latest after this, so that whoever follows the file sees the present. */
const gatherMs = 250;
/** Bytes that may wait for a slow disk; what comes on top is dropped and reported. */
const waitingBytes = 16 * 1024 * 1024;

export interface Trouble {
  /** The disk or pipe refused a write; what is waiting is tried again with the next one. Once per bad spell. */
  failed(error: Error): void;
  /** These lines will never be written. */
  dropped(lines: number): void;
}

export interface LineWriter {
  /** Takes a line without its line feed. Never waits, never throws. */
  write(line: string): void;
  /** Writes what was gathered and closes; resolves when it is in the file, or cannot be. */
  close(): Promise<void>;
}

/** Opens `file` for appending (created with mode 0640), or standard output. Throws what `open` throws. */
export function openLines(file: string | undefined, clock: Clock, trouble: Trouble): LineWriter {
  const destination = pino.destination({
    dest: file === undefined ? 1 : openSync(file, "a", 0o640),
    sync: false,
    maxLength: waitingBytes,
    maxWrite: 1024 * 1024,
  });
  let gathered = "";
  let failing = false;
  let gone = false;
  const flush = (): void => {
    if (gathered === "" || gone) return;
    const text = gathered;
    gathered = "";
    destination.write(text);
  };
  destination.on("error", (error: NodeJS.ErrnoException) => {
    // After EPIPE the destination swallows everything, also `end`.
    gone ||= error.code === "EPIPE";
    if (!failing) trouble.failed(error);
    failing = true;
  });
  // pino ends its destinations itself when a process comes to its end with nothing left to do.
  destination.on("close", () => {
    gone = true;
  });
  destination.on("write", () => {
    failing = false;
  });
  destination.on("drop", (text: string) => trouble.dropped(text.split("\n").length - 1));
  const timer = clock.every(gatherMs, flush);
  return {
    write(line) {
      gathered += `${line}\n`;
      if (gathered.length >= gatherChars) flush();
    },
    async close() {
      timer[Symbol.dispose]();
      flush();
      if (gone) return;
      const ended = Promise.withResolvers<void>();
      destination.once("close", ended.resolve);
      destination.once("error", ended.resolve);
      destination.end();
      await ended.promise;
      // Closes the file where an error has ended it; a closed one stays as it is.
      destination.destroy();
    },
  };
}
