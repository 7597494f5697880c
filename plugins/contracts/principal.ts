/** Callers of requests: workspaces, their plans and their API keys. */
import type { Environment, Exchange } from "sluice-gateway/plugin";

/** Names from the smallest plan to the largest. */
export const planNames = ["free", "developer", "startup", "enterprise"] as const;
export type PlanName = (typeof planNames)[number];

export const capabilities = [
  "ledger:read",
  "ledger:write",
  "platform:read",
  "docs:read",
  "inference",
  "workspace:admin",
  "platform:admin",
] as const;
export type Capability = (typeof capabilities)[number];

/** The terms of a plan, as configured under `plans` in pipeline.yaml. CU amounts are integers in milli-CU. */
export interface Plan {
  readonly name: PlanName;
  readonly rps: number;
  readonly includedMilliCu: number;
  /** USD as a decimal string. Undefined if the plan has no overage. */
  readonly overageUsdPerCu: string | undefined;
  /** Maximum number of active keys of a workspace whose administrator makes keys. Operators can make more. */
  readonly maxKeys: number;
}

export interface Workspace {
  readonly id: string;
  readonly name: string;
  readonly plan: PlanName;
  readonly pendingPlan: PlanName | undefined;
  /** Start of the billing period in which `pendingPlan` takes effect, in milliseconds since 1970. */
  readonly pendingPlanAt: number | undefined;
  /** Sum of all purchases. The meter keeps the remaining amount. */
  readonly purchasedTotalMilliCu: number;
  readonly overageLimitCuMilli: number | undefined;
  readonly createdAt: number;
}

/** Callers whom plugins have authenticated by themselves have other ids. */
export const keyIdPrefix = "key_";

export interface ApiKey {
  readonly id: string;
  readonly workspaceId: string;
  readonly name: string;
  readonly environment: Environment;
  readonly capabilities: ReadonlySet<Capability>;
  readonly rpsLimit: number | undefined;
  readonly cuLimit24hMilli: number | undefined;
  readonly cuLimit30dMilli: number | undefined;
  /** Addresses and CIDR blocks. Undefined if the key may be used from anywhere. */
  readonly allowedAddresses: readonly string[] | undefined;
  readonly createdAt: number;
  readonly expiresAt: number | undefined;
  readonly revokedAt: number | undefined;
}

/** The caller of a request. All requests of a key share one object until the key or its workspace changes. */
export type Principal = KeyPrincipal | Anonymous;
export interface KeyPrincipal {
  readonly kind: "key";
  readonly key: ApiKey;
  readonly workspace: Workspace;
  /** The plan that is in force now. */
  readonly plan: Plan;
  /** The lower of the limits of the key and the plan. */
  readonly rps: number;
}
export interface Anonymous {
  readonly kind: "anonymous";
  /**
   * The message with which a protected route refuses the request. The status is 401, or 403 for the last reason: the
   * key is valid but used from the wrong address.
   */
  readonly reason:
    | "missing authorization header"
    | "invalid authorization format"
    | "unauthorized"
    | "api key has expired"
    | "api key not allowed from this address";
  /**
   * The cause for operators, who may learn more than the client: for keys `missing`, `malformed`, `unknown`,
   * `environment`, `revoked`, `expired` or `address`. Plugins that check other credentials use words of their own, which
   * must not contain any part of the credential.
   */
  readonly cause?: string | undefined;
  /** Undefined if the presented key does not exist. */
  readonly key?: Pick<ApiKey, "id" | "workspaceId"> | undefined;
}

const causes: Readonly<Record<Anonymous["reason"], string>> = {
  "missing authorization header": "missing",
  "invalid authorization format": "malformed",
  unauthorized: "unknown",
  "api key has expired": "expired",
  "api key not allowed from this address": "address",
};

/** Returns a caller without a usable credential. `about`: what operators may learn in addition. */
export function anonymous(
  reason: Anonymous["reason"],
  about: Partial<Pick<Anonymous, "cause" | "key">> = {},
): Anonymous {
  return Object.freeze({ kind: "anonymous", reason, cause: causes[reason], ...about });
}

/** `unavailable`: the store of the keys cannot be queried at the moment. */
export type Caller = Principal | { readonly kind: "unavailable" };

/**
 * The claims of a caller that a plugin has authenticated by itself, such as the user of an OpenID provider. Ids have 1 to
 * 512 characters and no control characters. Limits are integers above 0, those of CU in milli-CU.
 */
export interface CallerClaims {
  /**
   * Id of the caller in charges, logs and limits. It should begin with the name of the provider (`oidc_ada`), so that
   * the ids of two providers differ. An id that begins with `key_` is refused, because those are the ids of API keys. An
   * id that is equal to `workspaceId` is refused, too, because the limits of the two are counted by their ids.
   */
  readonly id: string;
  /** Id of the workspace that pays. */
  readonly workspaceId: string;
  /** Plan in place of that of the workspace. */
  readonly plan?: PlanName | undefined;
  /** Plan if the gateway does not know the workspace. Without it, the caller of such a workspace is refused. */
  readonly defaultPlan?: PlanName | undefined;
  readonly capabilities: readonly Capability[];
  /** Requests per second. The limit of the plan also applies. */
  readonly rpsLimit?: number | undefined;
  readonly cuLimit24hMilli?: number | undefined;
  readonly cuLimit30dMilli?: number | undefined;
  /** Time from which on the caller is refused, in milliseconds since 1970. */
  readonly expiresAt?: number | undefined;
}

/** `CallerClaims` as another server has sent them. `identifyClaims` refuses callers with wrong values. */
export type ReceivedClaims = { readonly [Name in keyof CallerClaims]: unknown };

/**
 * Sets the slot `principal`, and records the fact `caller` for logs, limits and `sluice explain`. For steps that
 * identify callers; list `principal` under `provides`. The step `authorize` refuses anonymous callers, so that public
 * routes work without a credential.
 */
export function setPrincipal(x: Exchange, principal: Principal): void {
  x.set("principal", principal);
  if (principal.kind === "anonymous") {
    const { key } = principal;
    if (key === undefined) return;
    // The log names the key, although it cannot be used.
    x.note("caller", { id: key.id, group: key.workspaceId, burst: 0, isOperator: false });
    return;
  }
  const { key, rps } = principal;
  // The burst of a key is twice its rate (gateway.md, "Request rate").
  const isOperator = key.capabilities.has("platform:admin");
  x.note("caller", { id: key.id, group: key.workspaceId, burst: 2 * rps, isOperator });
}

/** An agent's description of itself, from the `X-Agent-*` headers. The texts are limited in length and not verified. */
export interface Agent {
  readonly name: string | undefined;
  readonly version: string | undefined;
  readonly sessionId: string | undefined;
  readonly provider: string | undefined;
  readonly capabilities: readonly string[] | undefined;
}

export interface ChangedBy {
  /** Id of the key that makes the change. */
  readonly actor: string;
  readonly requestId: string;
}

declare module "sluice-gateway/plugin" {
  interface Slots {
    /** The caller of the request. Set by `authenticate`, or by another step with `setPrincipal`. */
    principal: Principal;
    /** Missing if the client sent none of the `X-Agent-*` headers. Set by `agent-headers`. */
    agent: Agent;
  }
  interface Facts {
    agent: Agent;
  }
}
