/**
 * The lowest level of log messages of tools that a client gets. Stateless requests contain it; a session sets it once
 * (`logging/setLevel`), and gets no messages before that.
 */
import type { Replicas } from "sluice-gateway/plugin";
import type { LogLevel } from "sluice-gateway/services";
import { BoundedMap, isObject } from "sluice-gateway/internal/toolkit";
import type { Params } from "./json-rpc.ts";
import { metaKeys } from "../mcp-revisions.ts";
import type { Session } from "./sessions.ts";

/** Lowest level first. */
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
const topic = "mcp log level";

/**
 * Levels by the id of the session. Shared by the whole process, because a reload creates another instance of the
 * surface. Running replicas receive a new level within 250 ms. A replica that starts later does not know the level: the
 * session gets no messages from it until it sets its level again.
 */
const bySession = new BoundedMap<string, LogLevel>(maxSessions);

export function isLogLevel(value: unknown): value is LogLevel {
  return typeof value === "string" && logLevels.some((level) => level === value);
}

export function logLevelIn(params: Params): LogLevel | undefined {
  const meta = params["_meta"];
  const level = isObject(meta) ? meta[metaKeys.logLevel] : undefined;
  return isLogLevel(level) ? level : undefined;
}

export function isAtLeast(level: LogLevel, minLevel: LogLevel): boolean {
  return logLevels.indexOf(level) >= logLevels.indexOf(minLevel);
}

export function setLogLevel(
  { id }: Session,
  level: LogLevel,
  replicas: Pick<Replicas, "send"> | undefined,
): void {
  bySession.set(id, level);
  replicas?.send(topic, { id, level });
}

/** Applies the levels that other replicas set, until it is disposed of. */
export function followLogLevels(replicas: Replicas): Disposable {
  return replicas.receive(topic, (message) => {
    if (!isObject(message)) return;
    const { id, level } = message;
    if (typeof id === "string" && isLogLevel(level)) bySession.set(id, level);
  });
}

export function logLevelOf(session: Session | undefined): LogLevel | undefined {
  return session === undefined ? undefined : bySession.get(session.id);
}
