import type { Log } from "../src/plugin.ts";

export const silentLog: Log = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => silentLog,
};

/** Returns a log and its lines, as `level message`. */
export function keptLog(): { readonly log: Log; readonly lines: string[] } {
  const lines: string[] = [];
  const line = (level: string) => (_: object, message: string) =>
    void lines.push(`${level} ${message}`);
  const log: Log = {
    debug: line("debug"),
    info: line("info"),
    warn: line("warn"),
    error: line("error"),
    child: () => log,
  };
  return { log, lines };
}
