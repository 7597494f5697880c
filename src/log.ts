/** The gateway's log: pino's JSON lines, with what must never be in a log taken out of every line. */
import { pino } from "pino";
import { redact } from "./redact.ts";
import type { Log, LogLine } from "./services/log.ts";

export interface LogOptions {
  /** pino's levels: trace, debug, info, warn, error, fatal, silent. */
  readonly level: string;
  /** Where whole lines go; by default standard output, written at once so that a crash loses nothing. */
  readonly destination?: { write(line: string): void };
}

/** The log of a process, with the level that plugins do not have: `fatal`, for an error that ends it. */
export interface ProcessLog extends Log {
  readonly fatal: LogLine;
}

/** Opens a log. Throws on a level that pino does not know. */
export function createLog({ level, destination }: LogOptions): ProcessLog {
  return pino(
    {
      level,
      // Neither process id nor host name: whoever collects the lines adds what tells processes apart.
      base: null,
      hooks: { streamWrite: redact },
    },
    destination ?? pino.destination({ dest: 1, sync: true }),
  );
}
