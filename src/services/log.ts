/** The service `host.log`: implemented in src/log.ts. */

export type LogLine = (fields: object, message: string) => void;
/** Structured log (pino). Never pass a secret: `authorization` and key texts are redacted, prompts are not. */
export interface Log {
  /** The least level that is written, one of pino's; undefined: not said. */
  readonly level?: string;
  /** Takes a whole line (JSON without a line feed) in place of standard output; undefined: lines go there. */
  readonly line?: (text: string) => void;
  readonly debug: LogLine;
  readonly info: LogLine;
  readonly warn: LogLine;
  readonly error: LogLine;
  child(fields: object): Log;
}
