/**
 * Workspaces, keys and changes as JSON for clients and `--json` (decisions.md, section 1): snake_case names, RFC 3339
 * times, and no members without a value.
 */
import type {
  ChangeJson,
  KeyJson,
  KeyRecord,
  Workspace,
  WorkspaceJson,
} from "sluice-gateway/services";
import { isObject } from "sluice-gateway/internal/toolkit";
import type { Change } from "./account-store.ts";
import { keyState } from "./key-rules.ts";
import { applyDuePlan } from "./principal.ts";

/** `now` decides whether a pending plan is in force. */
export function workspaceJson(
  workspace: Workspace,
  purchasedLeftMilliCu: number,
  now: number,
): WorkspaceJson {
  const current = applyDuePlan(workspace, now);
  return omitUndefined({
    id: current.id,
    name: current.name,
    plan: current.plan,
    pending_plan: current.pendingPlan,
    pending_plan_at: time(current.pendingPlanAt),
    purchased_cu_milli: purchasedLeftMilliCu,
    overage_limit_cu_milli: current.overageLimitCuMilli,
    created_at: new Date(current.createdAt).toISOString(),
  });
}

export function keyJson(key: KeyRecord, now: number): KeyJson {
  return omitUndefined({
    id: key.id,
    workspace_id: key.workspaceId,
    name: key.name,
    environment: key.environment,
    capabilities: [...key.capabilities],
    rps_limit: key.rpsLimit,
    cu_limit_24h_milli: key.cuLimit24hMilli,
    cu_limit_30d_milli: key.cuLimit30dMilli,
    allowed_addresses: key.allowedAddresses,
    state: keyState(key, now),
    created_at: new Date(key.createdAt).toISOString(),
    expires_at: time(key.expiresAt),
    revoked_at: time(key.revokedAt),
    last_used_at: time(key.lastUsedAt),
  });
}

export function changeJson(change: Change): ChangeJson {
  return omitUndefined({
    id: change.id,
    time: new Date(change.at).toISOString(),
    actor: change.actor,
    request_id: change.requestId,
    workspace_id: change.workspaceId === "" ? undefined : change.workspaceId,
    key_id: change.keyId,
    action: change.action,
    details: toWire(change.details),
  });
}

/** Converts stored details, which have the names of this code, to the names and times of the wire format. */
function toWire(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toWire);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]: [string, unknown]) => [
      name.replace(/[A-Z]|\d+(?=[a-z])/g, (part) => `_${part.toLowerCase()}`),
      name.endsWith("At") && typeof member === "number" ? time(member) : toWire(member),
    ]),
  );
}

function time(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : new Date(ms).toISOString();
}

/** The members that are removed are optional in T. */
function omitUndefined<T extends object>(members: T): T {
  return Object.fromEntries(
    Object.entries(members).filter(([, value]) => value !== undefined),
  ) as T;
}
