/**
 * What must hold before a request of the session revisions is looked at: its revision, and its session if it names one.
 */
import type { Reply } from "sluice-gateway/plugin";
import type { McpCall } from "./mcp-call.ts";
import { failed, invalidParams, invalidRequest } from "./json-rpc.ts";
import {
  arraysRevision,
  isDate,
  metaKeys,
  sessionRevisions,
  statelessRevision,
} from "./revisions.ts";
import type { Session } from "./sessions.ts";

export type Opening =
  | { readonly ok: true; readonly revision: string; readonly session: Session | undefined }
  | { readonly ok: false; readonly reply: Reply };

/** `id`: that of the request, as JSON text. `isRequest`: an answer is expected. */
export function opening(call: McpCall, id: string, isRequest: boolean): Opening {
  const { "mcp-protocol-version": named, "mcp-session-id": token } = call.x.request.headers;
  // Names no header more than once, or its values come joined.
  const version = named as string | undefined;
  const refused = version === undefined ? undefined : versionRefusal(version, id, isRequest);
  if (refused !== undefined) return { ok: false, reply: refused };
  const session = sessionOf(call, token);
  if (session === "lost") return { ok: false, reply: lostSession(id) };
  // Some clients name another revision than they agreed to: the header says what the request is.
  const revision =
    version === undefined || version >= statelessRevision
      ? (session?.revision ?? arraysRevision)
      : version;
  return { ok: true, revision, session };
}

export function sessionOf(
  call: McpCall,
  token: string | readonly string[] | undefined,
): Session | "lost" | undefined {
  if (token === undefined) return undefined;
  const text = typeof token === "string" ? token : "";
  return call.server.sessions.find(text, call.principal.key.id) ?? "lost";
}

/** 404 tells clients of these revisions that the session is gone. */
export function lostSession(id: string): Reply {
  return failed(404, id, {
    ...invalidRequest,
    message: "Session not found",
    data: { errorCode: "GATEWAY_NOT_FOUND" },
  });
}

function versionRefusal(version: string, id: string, isRequest: boolean): Reply | undefined {
  if (sessionRevisions.includes(version)) return undefined;
  if (isDate(version) && version >= statelessRevision) {
    // Notifications of the stateless revision need not say which it is.
    if (!isRequest) return undefined;
    const missing = `params._meta lacks ${metaKeys.version} and ${metaKeys.capabilities}`;
    return failed(400, id, invalidParams(missing));
  }
  return failed(400, id, {
    ...invalidRequest,
    message: "Invalid Request: unsupported MCP-Protocol-Version",
    data: { supported: sessionRevisions },
  });
}
