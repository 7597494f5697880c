/** Principals, agents and charge lines for tests of metering that do not know how it is implemented. */
import type { Agent, ApiKey, KeyPrincipal, Plan, Workspace } from "sluice-gateway/services";

export const noon = Date.UTC(2026, 0, 15, 12);
export const minute = 60_000;
export const hour = 60 * minute;
export const day = 24 * hour;

export function planOf(more: Partial<Plan>): Plan {
  return {
    name: "free",
    rps: 2,
    includedMilliCu: 1_000_000,
    overageUsdPerCu: undefined,
    maxKeys: 10,
    ...more,
  };
}

export function workspaceOf(more: Partial<Workspace>): Workspace {
  return {
    id: "ws_1",
    name: "test",
    plan: "free",
    pendingPlan: undefined,
    pendingPlanAt: undefined,
    purchasedTotalMilliCu: 0,
    overageLimitCuMilli: undefined,
    createdAt: 0,
    ...more,
  };
}

export interface Wanted {
  readonly key?: Partial<ApiKey>;
  readonly workspace?: Partial<Workspace>;
  readonly plan?: Partial<Plan>;
}

export function principalOf({ key, workspace, plan }: Wanted = {}): KeyPrincipal {
  return {
    kind: "key",
    key: {
      id: "key_1",
      workspaceId: workspace?.id ?? "ws_1",
      name: "test",
      environment: "dev",
      capabilities: new Set(),
      rpsLimit: undefined,
      cuLimit24hMilli: undefined,
      cuLimit30dMilli: undefined,
      allowedAddresses: undefined,
      createdAt: 0,
      expiresAt: undefined,
      revokedAt: undefined,
      ...key,
    },
    workspace: workspaceOf(workspace ?? {}),
    plan: planOf(plan ?? {}),
    rps: 2,
  };
}

export const about = { requestId: "req-1", surface: "ledger-rpc" } as const;

export function line(costMilliCu: number): {
  surface: string;
  method: string;
  costMilliCu: number;
} {
  return { surface: "ledger-rpc", method: "chain_getBlock", costMilliCu };
}

export function agentOf(name: string, more: Partial<Agent> = {}): Agent {
  const none = { version: undefined, sessionId: undefined, provider: undefined };
  return { name, ...none, capabilities: undefined, ...more };
}
