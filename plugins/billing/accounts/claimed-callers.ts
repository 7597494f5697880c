/** Creates principals of callers whom a plugin has authenticated, from their claims and the stored workspaces. */
import { isDeepStrictEqual } from "node:util";
import type { Awaitable, Clock, Environment } from "sluice-gateway/plugin";
import {
  keyIdPrefix,
  type Caller,
  type CallerClaims,
  type KeyPrincipal,
  type ReceivedClaims,
  type Workspace,
  capabilities,
  planNames,
} from "sluice-gateway/services";
import { andThen, BoundedMap } from "sluice-gateway/internal/toolkit";
import type { AccountFeed } from "./account-feed.ts";
import type { AccountStore } from "./account-store.ts";
import { type Plans, applyDuePlan, unauthorized } from "./principal.ts";

export interface ClaimedCallersDeps {
  readonly store: Pick<AccountStore, "findWorkspace">;
  readonly clock: Clock;
  readonly environment: Environment;
  /** Returns the plans that are in force: the same object until they change. */
  readonly plans: () => Plans;
  readonly feed: Pick<AccountFeed, "isHealthy" | "unreadable">;
}

interface KnownWorkspace {
  /** Undefined if the store does not have the workspace. */
  readonly workspace: Workspace | undefined;
  /** Monotonic time at which the read started. */
  readonly readAt: number;
}

/** A principal, and the values that it was created from. Undefined if no plan is known. */
interface MadePrincipal {
  readonly principal: KeyPrincipal | undefined;
  readonly workspace: Workspace | undefined;
  readonly plans: Plans;
}

/** Maximum time until a change of a workspace is seen, as for API keys. */
const freshMs = 1_000;
/** Maximum number of workspaces in memory, about 0.5 KiB each. */
const maxWorkspaces = 10_000;

export class ClaimedCallers {
  readonly #deps: ClaimedCallersDeps;
  readonly #workspaces = new BoundedMap<string, KnownWorkspace>(maxWorkspaces);
  readonly #reads = new Map<string, Promise<Workspace | undefined>>();
  readonly #principals = new WeakMap<CallerClaims, MadePrincipal>();
  readonly #claims = new WeakMap<KeyPrincipal, CallerClaims>();

  constructor(deps: ClaimedCallersDeps) {
    this.#deps = deps;
  }

  /** Returns the principal of the caller, or `unauthorized`. Fails if the workspace is not known and cannot be read. */
  identify(claims: ReceivedClaims): Awaitable<Caller> {
    if (!areValidClaims(claims)) return unauthorized;
    const { id, workspaceId, expiresAt = Infinity } = claims;
    if (id.startsWith(keyIdPrefix) || this.#deps.clock.now() >= expiresAt) return unauthorized;
    return andThen(
      this.#workspace(workspaceId),
      (workspace) => this.#principal(claims, workspace) ?? unauthorized,
    );
  }

  /** Undefined for the principal of an API key. */
  claimsOf(principal: KeyPrincipal): CallerClaims | undefined {
    return this.#claims.get(principal);
  }

  #workspace(id: string): Awaitable<Workspace | undefined> {
    const { clock, feed } = this.#deps;
    const known = this.#workspaces.get(id);
    const startedAt = clock.monotonic();
    // While the store is not readable, a known workspace is not read, so that its callers do not wait.
    if (known !== undefined && (startedAt - known.readAt < freshMs || !feed.isHealthy)) {
      return known.workspace;
    }
    const running = this.#reads.get(id);
    if (running !== undefined) return running;
    const read = this.#read(id, known, startedAt).finally(() => this.#reads.delete(id));
    this.#reads.set(id, read);
    return read;
  }

  async #read(
    id: string,
    known: KnownWorkspace | undefined,
    startedAt: number,
  ): Promise<Workspace | undefined> {
    const { store, feed } = this.#deps;
    try {
      return this.#remember(id, await store.findWorkspace(id), startedAt);
    } catch (error) {
      if (known === undefined) throw error;
      feed.unreadable(error);
      return known.workspace;
    }
  }

  /** Returns the workspace with the plan that is in force. If it has not changed, it remains the same object. */
  #remember(id: string, stored: Workspace | undefined, readAt: number): Workspace | undefined {
    const before = this.#workspaces.peek(id)?.workspace;
    const current = stored && applyDuePlan(stored, this.#deps.clock.now());
    const workspace = isDeepStrictEqual(before, current) ? before : current;
    this.#workspaces.set(id, { workspace, readAt });
    return workspace;
  }

  #principal(claims: CallerClaims, workspace: Workspace | undefined): KeyPrincipal | undefined {
    const plans = this.#deps.plans();
    const made = this.#principals.get(claims);
    if (made !== undefined && made.workspace === workspace && made.plans === plans) {
      return made.principal;
    }
    const principal = principalOf(claims, workspace, plans, this.#deps.environment);
    this.#principals.set(claims, { principal, workspace, plans });
    if (principal !== undefined) this.#claims.set(principal, claims);
    return principal;
  }
}

function principalOf(
  claims: CallerClaims,
  workspace: Workspace | undefined,
  plans: Plans,
  environment: Environment,
): KeyPrincipal | undefined {
  const { id, workspaceId, rpsLimit, cuLimit24hMilli, cuLimit30dMilli, expiresAt } = claims;
  const planName = claims.plan ?? workspace?.plan ?? claims.defaultPlan;
  if (planName === undefined) return undefined;
  const plan = { name: planName, ...plans[planName] };
  return {
    kind: "key",
    key: {
      id,
      workspaceId,
      name: id,
      environment,
      capabilities: new Set(claims.capabilities),
      rpsLimit,
      cuLimit24hMilli,
      cuLimit30dMilli,
      allowedAddresses: undefined,
      createdAt: 0,
      expiresAt,
      revokedAt: undefined,
    },
    workspace: { ...(workspace ?? unknownWorkspace(workspaceId)), plan: planName },
    plan,
    rps: Math.min(rpsLimit ?? Infinity, plan.rps),
  };
}

function unknownWorkspace(id: string): Omit<Workspace, "plan"> {
  return {
    id,
    name: id,
    pendingPlan: undefined,
    pendingPlanAt: undefined,
    purchasedTotalMilliCu: 0,
    overageLimitCuMilli: undefined,
    createdAt: 0,
  };
}

const names: ReadonlySet<unknown> = new Set(capabilities);
/** The form of ids: text without control characters, so that databases and logs can store it. */
const idText = /^[^\p{Cc}\p{Cs}]{1,512}$/u;

function areValidClaims(claims: ReceivedClaims): claims is CallerClaims {
  return (
    isId(claims.id) &&
    isId(claims.workspaceId) &&
    // The ledger of leases counts both in one set of names.
    claims.id !== claims.workspaceId &&
    isPlan(claims.plan) &&
    isPlan(claims.defaultPlan) &&
    Array.isArray(claims.capabilities) &&
    claims.capabilities.every((name) => names.has(name)) &&
    isLimit(claims.rpsLimit) &&
    isLimit(claims.cuLimit24hMilli) &&
    isLimit(claims.cuLimit30dMilli) &&
    isTime(claims.expiresAt)
  );
}

function isId(value: unknown): boolean {
  return typeof value === "string" && idText.test(value);
}

function isPlan(value: unknown): boolean {
  return value === undefined || planNames.some((name) => name === value);
}

function isLimit(value: unknown): boolean {
  return value === undefined || (Number.isSafeInteger(value) && Number(value) > 0);
}

function isTime(value: unknown): boolean {
  return value === undefined || Number.isFinite(value);
}
