/** The service `host.accounts`, workspaces, keys and who is calling: implemented in src/accounts. */

export type Environment = "dev" | "stage" | "prod";

export type PlanName = "free" | "developer" | "startup" | "enterprise";

/** What a key may be allowed to do. */
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

/** The terms of a plan, from `plans` in pipeline.yaml. CU amounts are integers in milli-CU. */
export interface Plan {
  readonly name: PlanName;
  readonly rps: number;
  readonly includedCuMilli: number;
  /** USD per CU beyond the included and purchased amount, decimal string; undefined: no overage. */
  readonly overageUsdPerCu: string | undefined;
}

export interface Workspace {
  readonly id: string;
  readonly name: string;
  readonly plan: PlanName;
  readonly pendingPlan: PlanName | undefined;
  /** Milliseconds since 1970: the first instant of the period from which `pendingPlan` holds. */
  readonly pendingPlanAt: number | undefined;
  /** All that was ever bought, milli-CU; what is left of it is the meter's to say. */
  readonly purchasedTotalCuMilli: number;
  readonly overageLimitCuMilli: number | undefined;
  readonly createdAt: number;
}

export interface ApiKey {
  readonly id: string;
  readonly workspaceId: string;
  readonly name: string;
  readonly environment: Environment;
  readonly capabilities: ReadonlySet<Capability>;
  readonly rpsLimit: number | undefined;
  readonly cuLimit24hMilli: number | undefined;
  readonly cuLimit30dMilli: number | undefined;
  /** Addresses and CIDR blocks from which it may be used; undefined: from anywhere. */
  readonly allowedAddresses: readonly string[] | undefined;
  readonly createdAt: number;
  readonly expiresAt: number | undefined;
  readonly revokedAt: number | undefined;
}

/** Who is calling. The same object for every request of a key while nothing about it has changed. */
export type Principal = KeyPrincipal | Anonymous;
export interface KeyPrincipal {
  readonly kind: "key";
  readonly key: ApiKey;
  readonly workspace: Workspace;
  /** The plan in force now. */
  readonly plan: Plan;
  /** min(key override, plan), requests per second. */
  readonly rps: number;
}
export interface Anonymous {
  readonly kind: "anonymous";
  /** The message of the refusal of a protected route: 403 for the last, which is a valid key out of place, else 401. */
  readonly reason:
    | "missing authorization header"
    | "invalid authorization format"
    | "unauthorized"
    | "api key has expired"
    | "api key not allowed from this address";
}

/** Who the agent behind a request says it is (the X-Agent-* headers): bounded text, proves nothing. */
export interface Agent {
  readonly name: string | undefined;
  readonly version: string | undefined;
  readonly sessionId: string | undefined;
  readonly provider: string | undefined;
  readonly capabilities: readonly string[] | undefined;
}

export interface Accounts {
  /**
   * Who sent this `Authorization` header, from which address. Synchronous; never throws; changes are seen within 1 s.
   * Without an address, a key that is bound to some is nobody's.
   */
  identify(authorization: string | undefined, address?: string): Principal;
  /** The same for a key that has been identified before, by its id. */
  identifyKey(keyId: string, address: string): Principal;
}
