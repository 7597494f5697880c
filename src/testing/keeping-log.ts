import { pino } from "pino";
import type { Log } from "../plugin.ts";

/** JSON.stringify would write an Error as `{}`. The serializer of pino keeps its message, stack and causes. */
function withCause(fields: object): object {
  return "err" in fields && fields.err instanceof Error
    ? { ...fields, err: pino.stdSerializers.err(fields.err) }
    : fields;
}

/** Returns a log that adds its lines to `lines`, as `message {fields}`, and the JSON lines of the access log. */
export function keepingLog(lines: string[]): Log {
  const keep = (fields: object, message: string): void => {
    // A plugin in JavaScript can pass the message alone, as the log of a gateway allows.
    if (typeof fields === "string") return void lines.push(`${String(fields)} {}`);
    lines.push(`${message} ${JSON.stringify(withCause(fields))}`);
  };
  const line = (text: string): void => void lines.push(text);
  const log: Log = { line, debug: keep, info: keep, warn: keep, error: keep, child: () => log };
  return log;
}
