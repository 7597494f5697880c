import { pino } from "pino";
import type { Log, LogLine } from "../contract/log.ts";
import { redact } from "./redact.ts";

export interface LogOptions {
  /** One of pino's levels: trace, debug, info, warn, error, fatal, silent. */
  readonly level: string;
  /** Receives whole lines. The default is standard output, written synchronously, so that a crash loses no line. */
  readonly destination?: { write(line: string): void };
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
    destination ?? pino.destination({ dest: 1, sync: true }),
  );
}
