/** Workspaces and keys as clients and `--json` see them (decisions.md, section 1): snake_case, RFC 3339, no absent members. */
import type { Capability, Environment, PlanName, Workspace } from "../plugin.ts";
import { keyState, type KeyRecord } from "./keys.ts";
import { inForce } from "./terms.ts";

// Type aliases, not interfaces: only those fit where any flat record is taken.
export type WorkspaceJson = {
  readonly id: string;
  readonly name: string;
  readonly plan: PlanName;
  readonly pending_plan?: PlanName;
  readonly pending_plan_at?: string;
  /** What is left of all purchases. */
  readonly purchased_cu_milli: number;
  readonly overage_limit_cu_milli?: number;
  readonly created_at: string;
};

export type KeyJson = {
  readonly id: string;
  readonly workspace_id: string;
  readonly name: string;
  readonly environment: Environment;
  readonly capabilities: readonly Capability[];
  readonly rps_limit?: number;
  readonly cu_limit_24h_milli?: number;
  readonly cu_limit_30d_milli?: number;
  readonly state: "active" | "revoked" | "expired";
  readonly created_at: string;
  readonly expires_at?: string;
  readonly revoked_at?: string;
  readonly last_used_at?: string;
};

/** `purchasedLeftCuMilli` is the meter's to say; `now` decides whether a pending plan has come. */
export function workspaceJson(
  workspace: Workspace,
  purchasedLeftCuMilli: number,
  now: number,
): WorkspaceJson {
  const current = inForce(workspace, now);
  return present({
    id: current.id,
    name: current.name,
    plan: current.plan,
    pending_plan: current.pendingPlan,
    pending_plan_at: time(current.pendingPlanAt),
    purchased_cu_milli: purchasedLeftCuMilli,
    overage_limit_cu_milli: current.overageLimitCuMilli,
    created_at: new Date(current.createdAt).toISOString(),
  });
}

/** A key without its text. */
export function keyJson(key: KeyRecord, now: number): KeyJson {
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
    created_at: new Date(key.createdAt).toISOString(),
    expires_at: time(key.expiresAt),
    revoked_at: time(key.revokedAt),
    last_used_at: time(key.lastUsedAt),
  });
}

function time(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : new Date(ms).toISOString();
}

/** Takes out the members that are undefined: they are optional in T. */
function present<T extends object>(members: T): T {
  return Object.fromEntries(
    Object.entries(members).filter(([, value]) => value !== undefined),
  ) as T;
}
