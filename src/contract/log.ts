/** The service `host.log`. Implemented in src/base/log.ts. */

export type LogLine = (fields: object, message: string) => void;
/**
 * Structured log (pino). Never pass a secret. Headers such as `authorization` and the texts of keys are redacted, but
 * prompts are not.
 */
export interface Log {
  /** The lowest level that is written, one of pino's levels. Undefined if it is unknown. */
  readonly level?: string;
  /** Receives each line (JSON without a line feed) instead of standard output. Undefined: use standard output. */
  readonly line?: (text: string) => void;
  readonly debug: LogLine;
  readonly info: LogLine;
  readonly warn: LogLine;
  readonly error: LogLine;
  child(fields: object): Log;
}
