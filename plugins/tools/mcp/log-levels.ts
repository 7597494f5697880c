/**
 * From which severity on a client hears what tools log. Stateless requests say it themselves; a session sets it once
 * (`logging/setLevel`), and one that has not hears nothing.
 */
import type { LogLevel } from "sluice-gateway/plugin";
import { isObject, type Params } from "./json-rpc.ts";
import { metaKeys } from "./revisions.ts";
import type { Session } from "./sessions.ts";

/** Mildest first. */
const logLevels: readonly LogLevel[] = [
  "debug",
  "info",
  "notice",
  "warning",
  "error",
  "critical",
  "alert",
  "emergency",
];

const maxSessions = 10_000;

/**
 * By the session's id. Of the whole process, for a reload makes another surface; on another replica, and after a
 * restart, the session hears nothing until it asks again.
 */
const bySession = new Map<string, LogLevel>();

export function isLogLevel(value: unknown): value is LogLevel {
  return typeof value === "string" && logLevels.some((level) => level === value);
}

/** What a stateless request asks for. */
export function logLevelIn(params: Params): LogLevel | undefined {
  const meta = params["_meta"];
  const level = isObject(meta) ? meta[metaKeys.logLevel] : undefined;
  return isLogLevel(level) ? level : undefined;
}

/** Whether what has this level is told to whoever asked for `least`. */
export function isAtLeast(level: LogLevel, least: LogLevel): boolean {
  return logLevels.indexOf(level) >= logLevels.indexOf(least);
}

/** The session that asked longest ago makes room. */
export function setLogLevel({ id }: Session, level: LogLevel): void {
  bySession.delete(id);
  bySession.set(id, level);
  const [oldest] = bySession.keys();
  if (bySession.size > maxSessions && oldest !== undefined) bySession.delete(oldest);
}

export function logLevelOf(session: Session | undefined): LogLevel | undefined {
  return session === undefined ? undefined : bySession.get(session.id);
}
