/** Workspaces and keys as clients and `--json` see them (decisions.md, section 1): snake_case, RFC 3339, no absent members. */
import type { Workspace } from "../plugin.ts";
import { keyState, type KeyRecord } from "./keys.ts";
import { inForce } from "./terms.ts";

export type Json = Readonly<Record<string, unknown>>;

/** `purchasedLeftCuMilli`: what is left of all purchases. */
export function workspaceJson(
  workspace: Workspace,
  purchasedLeftCuMilli: number,
  now: number,
): Json {
  const current = inForce(workspace, now);
  return present({
    id: current.id,
    name: current.name,
    plan: current.plan,
    pending_plan: current.pendingPlan,
    pending_plan_at: time(current.pendingPlanAt),
    purchased_cu_milli: purchasedLeftCuMilli,
    overage_limit_cu_milli: current.overageLimitCuMilli,
    created_at: time(current.createdAt),
  });
}

/** A key without its text. */
export function keyJson(key: KeyRecord, now: number): Json {
  return present({
    id: key.id,
    workspace_id: key.workspaceId,
    name: key.name,
    environment: key.environment,
    capabilities: [...key.capabilities],
    rps_limit: key.rpsLimit,
    cu_limit_24h_milli: key.cuLimit24hMilli,
    cu_limit_30d_milli: key.cuLimit30dMilli,
    state: keyState(key, now),
    created_at: time(key.createdAt),
    expires_at: time(key.expiresAt),
    revoked_at: time(key.revokedAt),
    last_used_at: time(key.lastUsedAt),
  });
}

function time(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : new Date(ms).toISOString();
}

function present(members: Json): Json {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
}
