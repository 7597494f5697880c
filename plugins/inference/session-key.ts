/**
 * The key of a session for `affinity`: the name that the client gives it, else a hash of the beginning of its prompt,
 * which stays the same while a conversation grows (decisions.md section 15).
 */
import { hash } from "node:crypto";
import type { Exchange } from "sluice-gateway/plugin";
import { isObject } from "sluice-gateway/internal/toolkit";

/** Headers in which agents name their session: Codex, opencode and pi, gateways in front, and Claude Code. */
const headers = [
  "session-id",
  "session_id",
  "x-session-affinity",
  "x-session-id",
  "x-claude-code-session-id",
];
/** Longer texts are not names of sessions. */
const maxNameLength = 256;

export interface SessionHints {
  readonly name: unknown;
  /** Messages in the format of chat completions. */
  readonly messages: readonly unknown[];
}

/** Sessions of different callers never have the same key. Undefined for a request that belongs to none. */
export function sessionKey(x: Exchange, hints: SessionHints | undefined): string | undefined {
  if (hints === undefined) return undefined;
  const { name, messages } = hints;
  const caller = x.facts.caller?.id ?? "";
  const named = [name, ...headers.map((header) => x.request.headers[header])].find(isName);
  return `${caller} ${named ?? hash("sha1", beginningOf(messages))}`;
}

function isName(value: unknown): value is string {
  return typeof value === "string" && value !== "" && value.length <= maxNameLength;
}

function beginningOf(messages: readonly unknown[]): string {
  const at = messages.findIndex((one) => isObject(one) && one["role"] === "user");
  return JSON.stringify(messages.slice(0, at + 1 || 1));
}
