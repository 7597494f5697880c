/**
 * Routes for keys and workspaces: the state of their windows, and creating, rotating and revoking keys. Changes are
 * recorded in the audit log, like those of the command line.
 */
import type { FastifyReply, FastifyRequest } from "fastify";
import type { ChangeAuthor, Failed, KeyRecord, WindowState } from "sluice-gateway/services";
import { sendJson, sendRefusal } from "./answer.ts";
import type { AddRoute, Handler } from "./route.ts";
import { queryOf } from "./input.ts";
import type { DashboardParts } from "./parts.ts";
import type { Viewer } from "./session.ts";
import { mayGrant, readOverlapMs, readWantedKey } from "./wanted-key.ts";

/** Maximum number of rows in one answer. To find others, the user searches. */
const maxKeys = 100;
const maxWorkspaces = 500;
const maxTextLength = 100;

export function keyRoutes(add: AddRoute, parts: DashboardParts): void {
  add("GET", "workspaces", (viewer, _, reply) => workspaces(parts, viewer, reply));
  add("GET", "keys", (viewer, request, reply) => list(parts, viewer, request, reply));
  add("POST", "keys", (viewer, request, reply) => create(parts, viewer, request, reply));
  add("POST", "keys/:id/rotate", ofKey(parts, rotate));
  add("POST", "keys/:id/revoke", ofKey(parts, revoke));
}

async function workspaces(
  parts: DashboardParts,
  viewer: Viewer,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { admin } = parts.accounts;
  const found =
    viewer.only === undefined ? await admin.listWorkspaces(maxWorkspaces) : [viewer.workspace];
  const shown = await Promise.all(found.map(async (each) => admin.workspaceJson(each)));
  return sendJson(reply, 200, { workspaces: shown });
}

async function list(
  parts: DashboardParts,
  viewer: Viewer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { metering, clock } = parts;
  const { admin } = parts.accounts;
  const query = queryOf(request.url, ["q", "workspace", "state"]);
  const { q: text = "", workspace, state = "active" } = query ?? {};
  if (query === undefined || text.length > maxTextLength || !["active", "all"].includes(state)) {
    const message = "the query is q, workspace, state=active or all";
    return sendRefusal(reply, "GATEWAY_INVALID_PARAMS", { message });
  }
  if (outside(viewer, workspace)) return sendRefusal(reply, "GATEWAY_NOT_FOUND");
  const now = clock.now();
  const found = await admin.searchKeys({
    workspaceId: viewer.only ?? workspace,
    text,
    activeAt: state === "active" ? now : undefined,
    limit: maxKeys + 1,
  });
  const keys = await Promise.all(
    found.slice(0, maxKeys).map(async ({ key, workspaceName }) => {
      const { day, month, openMilliCu } = await metering.keyWindows(key);
      return {
        ...admin.keyJson(key),
        workspace_name: workspaceName,
        rotated_to: key.rotatedTo,
        windows: { "24h": windowJson(day, openMilliCu), "30d": windowJson(month, openMilliCu) },
        /** True if this viewer may rotate and revoke the key. */
        manageable: mayGrant(viewer.only, key.capabilities),
      };
    }),
  );
  return sendJson(reply, 200, {
    keys,
    truncated: found.length > maxKeys,
  });
}

function windowJson(
  { usedMilliCu, limitMilliCu, freesAt, roomAt, emptyAt }: WindowState,
  openMilliCu: number,
): object {
  return {
    used_cu_milli: usedMilliCu,
    reserved_cu_milli: openMilliCu,
    limit_cu_milli: limitMilliCu,
    frees_at: time(freesAt),
    room_at: time(roomAt),
    empty_at: time(emptyAt),
  };
}

async function create(
  parts: DashboardParts,
  viewer: Viewer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const read = readWantedKey(request.body);
  if ("wrong" in read) {
    return sendRefusal(reply, "GATEWAY_SCHEMA_VIOLATION", { message: read.wrong });
  }
  const wanted = read.value;
  if (outside(viewer, wanted.workspace_id)) return sendRefusal(reply, "GATEWAY_NOT_FOUND");
  if (!mayGrant(viewer.only, wanted.capabilities)) {
    const message = "platform:admin is a platform administrator's to give";
    return sendRefusal(reply, "GATEWAY_PERMISSION_DENIED", { message });
  }
  const by = byOf(parts, viewer, request);
  const expiresIn = wanted.expires_in_seconds;
  const { admin } = parts.accounts;
  const issued = await admin.createKey(
    {
      workspaceId: wanted.workspace_id,
      name: wanted.name,
      environment: parts.environment,
      capabilities: wanted.capabilities,
      rpsLimit: wanted.rps_limit,
      cuLimit24hMilli: wanted.cu_limit_24h_milli,
      cuLimit30dMilli: wanted.cu_limit_30d_milli,
      allowedAddresses: wanted.allowed_addresses,
      expiresAt: expiresIn === undefined ? undefined : by.at + expiresIn * 1000,
    },
    by,
  );
  if ("failed" in issued) return refuseFailed(reply, issued);
  return sendJson(reply, 201, { key: admin.keyJson(issued.key), secret: issued.text });
}

type KeyChange = (
  parts: DashboardParts,
  key: KeyRecord,
  by: ChangeAuthor,
  request: FastifyRequest,
  reply: FastifyReply,
) => Promise<FastifyReply>;

/** Finds the key of the path if the viewer may change it. For all other viewers, it does not exist. */
function ofKey(parts: DashboardParts, change: KeyChange): Handler {
  return async (viewer, request, reply) => {
    const { id } = request.params as { id: string };
    const key = await parts.accounts.admin.findKey(id);
    if (key === undefined || outside(viewer, key.workspaceId)) {
      return sendRefusal(reply, "GATEWAY_NOT_FOUND");
    }
    // After a rotation, the viewer would have a key with capabilities for the whole deployment.
    if (!mayGrant(viewer.only, key.capabilities)) {
      const message = "this key is a platform administrator's to change";
      return sendRefusal(reply, "GATEWAY_PERMISSION_DENIED", { message });
    }
    return change(parts, key, byOf(parts, viewer, request), request, reply);
  };
}

const rotate: KeyChange = async ({ accounts: { admin } }, key, by, request, reply) => {
  const read = readOverlapMs(request.body);
  if ("wrong" in read) {
    return sendRefusal(reply, "GATEWAY_SCHEMA_VIOLATION", { message: read.wrong });
  }
  const issued = await admin.rotateKey(key.id, read.value, by);
  if ("failed" in issued) return refuseFailed(reply, issued);
  return sendJson(reply, 201, {
    key: admin.keyJson(issued.key),
    secret: issued.text,
    replaced: admin.keyJson(issued.replaced),
  });
};

const revoke: KeyChange = async ({ accounts: { admin } }, key, by, _, reply) => {
  const revoked = await admin.revokeKey(key.id, by);
  if ("failed" in revoked) return refuseFailed(reply, revoked);
  return sendJson(reply, 200, { key: admin.keyJson(revoked) });
};

/** Returns true for a workspace that the viewer may not see. */
function outside(viewer: Viewer, workspaceId: string | undefined): boolean {
  return viewer.only !== undefined && workspaceId !== undefined && workspaceId !== viewer.only;
}

function byOf({ clock }: DashboardParts, viewer: Viewer, request: FastifyRequest): ChangeAuthor {
  return { actor: viewer.key.id, at: clock.now(), requestId: request.id };
}

function refuseFailed(reply: FastifyReply, { failed, message }: Failed): FastifyReply {
  if (failed === "notFound") return sendRefusal(reply, "GATEWAY_NOT_FOUND");
  return sendRefusal(reply, "GATEWAY_CONFLICT", { message });
}

function time(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : new Date(ms).toISOString();
}
