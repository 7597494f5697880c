/** Creates the principal that plugins see from a stored key and its workspace, and computes how long it is valid. */
import { addressList } from "sluice-gateway/internal/http";
import {
  type ApiKey,
  type KeyPrincipal,
  type Plan,
  type PlanName,
  type Workspace,
  type Capability,
  anonymous,
  type Anonymous,
} from "sluice-gateway/services";
import { keyEnvironment } from "./key-text.ts";

export type Plans = Readonly<Record<PlanName, Omit<Plan, "name">>>;

/** The cached state of a key. The principal is valid while `planFrom <= now < planUntil`. */
export interface KeyEntry {
  readonly key: ApiKey;
  /** The stored workspace. Its pending plan may be due. */
  readonly workspace: Workspace;
  readonly expiresAt: number;
  /** Returns whether the key may be used from an address. Undefined if it may be used from anywhere. */
  readonly allows: ((address: string) => boolean) | undefined;
  principal: KeyPrincipal;
  planFrom: number;
  planUntil: number;
  /** Time of the last request. 0 if there was none. */
  usedAt: number;
  savedUsedAt: number;
}

export function makeKeyEntry(
  key: ApiKey,
  workspace: Workspace,
  plans: Plans,
  now: number,
): KeyEntry {
  return {
    key,
    workspace,
    expiresAt: key.expiresAt ?? Infinity,
    allows: key.allowedAddresses && addressList(key.allowedAddresses),
    ...principalAt(key, workspace, plans, now),
    usedAt: 0,
    savedUsedAt: 0,
  };
}

/** Returns the principal at `now` and the span in which it is valid. A pending plan limits the span on one side. */
export function principalAt(
  key: ApiKey,
  workspace: Workspace,
  plans: Plans,
  now: number,
): Pick<KeyEntry, "principal" | "planFrom" | "planUntil"> {
  const changesAt = workspace.pendingPlanAt ?? Infinity;
  const current = applyDuePlan(workspace, now);
  const plan: Plan = { name: current.plan, ...plans[current.plan] };
  const rps = Math.min(key.rpsLimit ?? Infinity, plan.rps);
  return {
    principal: { kind: "key", key, workspace: current, plan, rps },
    planFrom: now < changesAt ? -Infinity : changesAt,
    planUntil: now < changesAt ? changesAt : Infinity,
  };
}

export const defaultCapabilities: readonly Capability[] = [
  "ledger:read",
  "platform:read",
  "docs:read",
  "inference",
];

/** Returns the workspace as of `now`: a pending plan that is due becomes its plan. */
export function applyDuePlan(workspace: Workspace, now: number): Workspace {
  const { pendingPlan, pendingPlanAt } = workspace;
  if (pendingPlan === undefined || pendingPlanAt === undefined || now < pendingPlanAt) {
    return workspace;
  }
  return { ...workspace, plan: pendingPlan, pendingPlan: undefined, pendingPlanAt: undefined };
}

export const bearer = "Bearer ";

export const missing = anonymous("missing authorization header");
const malformed = anonymous("invalid authorization format");
export const unauthorized = anonymous("unauthorized");
export const wrongEnvironment = anonymous("unauthorized", { cause: "environment" });

export function revoked(key: ApiKey): Anonymous {
  return anonymous("unauthorized", { cause: "revoked", key });
}

export function expired(key: ApiKey): Anonymous {
  return anonymous("api key has expired", { key });
}

export function wrongAddress(key: ApiKey): Anonymous {
  return anonymous("api key not allowed from this address", { key });
}

/** Returns the principal for a header without a usable key of this deployment (gateway.md, Authentication). */
export function anonymousFor(authorization: string): Anonymous {
  const isKey =
    authorization.startsWith(bearer) && keyEnvironment(authorization, bearer.length) !== undefined;
  return isKey ? wrongEnvironment : malformed;
}
