import { pino } from "pino";
import type { Log, LogLine } from "../contract/log.ts";
import { redact } from "./redact.ts";

export interface LogOptions {
  /** One of pino's levels: trace, debug, info, warn, error, fatal, silent. */
  readonly level: string;
  /** Receives whole lines (default: standard output). */
  readonly destination?: LogDestination;
}

interface LogDestination {
  write(line: string): void;
}

/** `fatal`, which plugins do not have, is for an error that ends the process. */
export interface ProcessLog extends Log {
  readonly fatal: LogLine;
}

/** Throws if pino does not know the level. */
export function createLog({ level, destination }: LogOptions): ProcessLog {
  return pino(
    {
      level,
      // Process id and host name are left out. The log collector adds the fields that identify a process.
      base: null,
      hooks: { streamWrite: redact },
    },
    destination ?? standardStream(1),
  );
}

/** Maximum length of the lines that wait while the stream cannot be written, in bytes. Further ones are dropped. */
const maxWaiting = 1_048_576;

/**
 * Writes to standard output (1) or standard error (2) at once, so that a crash loses no line. If it cannot be written,
 * for example because its disk is full, the process continues, and the next line tries again.
 */
export function standardStream(dest: 1 | 2): LogDestination {
  const stream = pino.destination({ dest, sync: true, maxLength: maxWaiting });
  stream.on("error", () => {});
  // Nothing is left to write, unless writing fails. pino would then try it again without an end.
  stream.flushSync = () => {};
  return stream;
}
