/** The service `host.log`: implemented in src/log.ts. */

type LogLine = (fields: object, message: string) => void;
/** Structured log (pino). Never pass a secret: `authorization` and key texts are redacted, prompts are not. */
export interface Log {
  readonly debug: LogLine;
  readonly info: LogLine;
  readonly warn: LogLine;
  readonly error: LogLine;
  child(fields: object): Log;
}
