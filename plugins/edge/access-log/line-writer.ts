/** Lines on their way to a file or standard output: gathered here, written by pino's asynchronous destination. */
import { closeSync, openSync } from "node:fs";
import { stat } from "node:fs/promises";
import { pino } from "pino";
import type { Clock } from "sluice-gateway/plugin";

/** Gathered text is handed on at this size: one write for some two hundred lines. */
const gatherChars = 64 * 1024;
/** … and at the latest after this, so that whoever follows the file sees the present. */
const gatherMs = 250;
/** How often the file is looked for: whoever rotates logs renames it, and expects a new one. */
const lookMs = 1_000;
/** Bytes that may wait for a slow disk; what comes on top is dropped and reported. */
const waitingBytes = 16 * 1024 * 1024;

const fileMode = 0o640;

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

/**
 * Opens `file` for appending (created with mode 0640), or standard output. Throws what `open` throws. A file that was
 * renamed or removed is made anew within a second; what was written until then is in the old one.
 */
export function openLines(file: string | undefined, clock: Clock, trouble: Trouble): LineWriter {
  if (file !== undefined) closeSync(openSync(file, "a", fileMode));
  const destination = pino.destination({
    dest: file ?? 1,
    mode: fileMode,
    sync: false,
    maxLength: waitingBytes,
    maxWrite: 1024 * 1024,
  });
  let gathered = "";
  let failing = false;
  let gone = false;
  let closing = false;
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
  const look =
    file === undefined
      ? undefined
      : clock.every(
          lookMs,
          reopener(file, destination, () => gone || closing),
        );
  return {
    write(line) {
      gathered += `${line}\n`;
      if (gathered.length >= gatherChars) flush();
    },
    async close() {
      closing = true;
      timer[Symbol.dispose]();
      look?.[Symbol.dispose]();
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

/** Opens the file anew where another one, or none, stands in its place. */
function reopener(
  file: string,
  destination: ReturnType<typeof pino.destination>,
  isOver: () => boolean,
): () => void {
  let inode: number | undefined;
  let looking = false;
  let reopening = true;
  const opened = (ino: number | undefined): void => {
    inode = ino;
    reopening = false;
  };
  destination.on("ready", () => {
    stat(file).then(
      ({ ino }) => opened(ino),
      () => opened(undefined),
    );
  });
  // What could not be opened is tried again.
  destination.on("error", () => opened(inode));
  const compare = (found: number | undefined): void => {
    looking = false;
    if (found !== undefined && found === inode) return;
    if (isOver() || reopening) return;
    reopening = true;
    destination.reopen(file);
  };
  return () => {
    if (looking) return;
    looking = true;
    stat(file).then(
      ({ ino }) => compare(ino),
      () => compare(undefined),
    );
  };
}
