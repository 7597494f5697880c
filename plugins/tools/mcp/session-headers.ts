import type { Reply } from "sluice-gateway/plugin";
import type { McpCall } from "./mcp-call.ts";
import { errorReply, invalidParams, invalidRequest } from "./json-rpc.ts";
import {
  arraysRevision,
  isDate,
  metaKeys,
  sessionRevisions,
  statelessRevision,
} from "../mcp-revisions.ts";
import type { Session } from "./sessions.ts";

export type SessionHeaders =
  | { readonly ok: true; readonly revision: string; readonly session: Session | undefined }
  | { readonly ok: false; readonly reply: Reply };

/** `id`: id of the request as JSON text. `isRequest`: true if an answer is expected. */
export function readSessionHeaders(call: McpCall, id: string, isRequest: boolean): SessionHeaders {
  const { "mcp-protocol-version": named, "mcp-session-id": token } = call.x.request.headers;
  // Node joins repeated headers, so the value is a string.
  const version = named as string | undefined;
  const refused = version === undefined ? undefined : versionRefusal(version, id, isRequest);
  if (refused !== undefined) return { ok: false, reply: refused };
  const session = sessionOf(call, token);
  if (session === "lost") return { ok: false, reply: lostSession(id) };
  // Some clients send a revision other than the one that they agreed to. The header determines the revision.
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

/** Returns the 404 of these revisions for a session that no longer exists. */
export function lostSession(id: string): Reply {
  return errorReply(404, id, {
    ...invalidRequest,
    message: "Session not found",
    data: { errorCode: "GATEWAY_NOT_FOUND" },
  });
}

function versionRefusal(version: string, id: string, isRequest: boolean): Reply | undefined {
  if (sessionRevisions.includes(version)) return undefined;
  if (isDate(version) && version >= statelessRevision) {
    // Notifications of the stateless revision need not name their revision.
    if (!isRequest) return undefined;
    const missing = `params._meta lacks ${metaKeys.version} and ${metaKeys.capabilities}`;
    return errorReply(400, id, invalidParams(missing));
  }
  return errorReply(400, id, {
    ...invalidRequest,
    message: "Invalid Request: unsupported MCP-Protocol-Version",
    data: { supported: sessionRevisions },
  });
}
