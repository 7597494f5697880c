/** The service `accounts`: workspaces, API keys and callers. Implemented in plugins/billing/accounts. */
import type { Awaitable, Environment, Exchange } from "sluice-gateway/plugin";
import type { Idempotency } from "./idempotency.ts";
import type { ModelOverride } from "./inference.ts";
import type {
  ApiKey,
  Caller,
  Capability,
  ChangedBy,
  KeyPrincipal,
  Plan,
  PlanName,
  Principal,
  ReceivedClaims,
  Workspace,
} from "./principal.ts";
import type { Tickets } from "./tickets.ts";
import type { ChangeJson, WorkspaceJson, Workspaces } from "./workspaces.ts";

declare module "sluice-gateway/plugin" {
  interface ServiceTypes {
    accounts: Accounts;
  }
}

export interface Callers {
  /**
   * Returns the caller who sent this `Authorization` header from this address. Never fails. The result is a promise
   * only if a store on another host must be queried. Changes of keys and workspaces are seen within one second. Without
   * an address, a key that is bound to addresses is refused.
   */
  identify(authorization: string | undefined, address?: string): Awaitable<Caller>;
  /** Returns the caller for the id of a key that was identified before. */
  identifyKey(keyId: string, address: string): Awaitable<Caller>;
  /**
   * Returns the caller with this principal of an earlier request as the accounts know it now, for connections that stay
   * open. The caller is anonymous if its key was revoked or its claims have expired. Never fails.
   */
  identifyAgain(principal: KeyPrincipal, address: string): Awaitable<Caller>;
  /**
   * Returns the principal of a caller that a plugin has authenticated by itself. The caller is anonymous
   * (`unauthorized`) if no plan is known, `expiresAt` has passed, the id begins with `key_`, or a value does not have
   * the type and range that `CallerClaims` describes. Never fails. The result is a promise only if the workspace must
   * be read from a store on another host.
   *
   * Changes of the workspace are seen within one second. Pass the same object for the same credential: its principal
   * then remains the same object until something changes. While the store cannot be read, callers of workspaces that
   * were read before remain known, and others are `unavailable`.
   */
  identifyClaims(claims: ReceivedClaims): Awaitable<Caller>;
}

export interface Accounts extends Callers {
  /** The function `setPrincipal` of `sluice-gateway/services`, for plugins that import only `sluice-gateway/plugin`. */
  setPrincipal(x: Exchange, principal: Principal): void;
  readonly workspaces: Workspaces;
  readonly idempotency: Idempotency;
  readonly tickets: Tickets;
  readonly admin: AccountsAdmin;
  /** The map stays the same object until an override changes. */
  overrides(network: string): ReadonlyMap<string, ModelOverride>;
  /**
   * Replaces all overrides of a network with `models`, which must have distinct ids. Returns false if they could not be
   * written; nothing has changed then. The change is durable when the method has returned, or the surrounding
   * transaction has committed.
   */
  replaceOverrides(
    network: string,
    models: readonly ModelOverride[],
    by: ChangedBy,
  ): Promise<boolean>;
}

/**
 * Author and time (milliseconds since 1970) of a change. `actor` is `cli:<user>`, the id of a key, or
 * `oidc:<subject> (<e-mail>)` for a user of an OpenID provider; the last two have a `requestId`. `maxActiveKeys`: how
 * many active keys the author may give the workspace. Undefined for operators.
 */
export interface ChangeAuthor {
  readonly actor: string;
  readonly at: number;
  readonly requestId?: string | undefined;
  readonly maxActiveKeys?: number | undefined;
}

/**
 * `notFound`: the workspace or key does not exist. `conflict`: its state does not allow the change. `message`: for
 * people.
 */
export interface Failed {
  readonly failed: "notFound" | "conflict";
  readonly message: string;
}

export interface NewWorkspace {
  readonly name: string;
  readonly plan: PlanName;
  readonly overageLimitCuMilli?: number | undefined;
}

export interface NewKey {
  readonly workspaceId: string;
  readonly name: string;
  readonly environment: Environment;
  readonly capabilities: readonly Capability[];
  /** Requests per second, above 0. */
  readonly rpsLimit?: number | undefined;
  readonly cuLimit24hMilli?: number | undefined;
  readonly cuLimit30dMilli?: number | undefined;
  /** Addresses or CIDR blocks, at least one. */
  readonly allowedAddresses?: readonly string[] | undefined;
  readonly expiresAt?: number | undefined;
}

/** A key with the members that only its administrator needs. */
export interface KeyRecord extends ApiKey {
  /** Time of the last use, accurate to one minute. Undefined if the key was never used. */
  readonly lastUsedAt: number | undefined;
  /** Id of the key that replaced this one. */
  readonly rotatedTo: string | undefined;
}

/** A new key. Its text cannot be read again. */
export interface IssuedKey {
  readonly key: KeyRecord;
  readonly text: string;
}

export interface RotatedKey extends IssuedKey {
  readonly replaced: KeyRecord;
}

export type KeyState = "active" | "revoked" | "expired";

export interface KeySearch {
  /** All workspaces if undefined. */
  readonly workspaceId: string | undefined;
  /** Part of the key's id or name, or of its workspace's id or name, in any case. Empty for all keys. */
  readonly text: string;
  /** Selects the keys that are neither revoked nor expired at this time (milliseconds since 1970). All keys if undefined. */
  readonly activeAt: number | undefined;
  /** Default: 0. */
  readonly skip?: number | undefined;
  readonly limit: number;
}

export interface WorkspaceSearch {
  /** Part of the workspace's id or name, in any case. Empty for all workspaces. */
  readonly text: string;
  readonly skip: number;
  readonly limit: number;
}

export interface ChangeSearch {
  /** All workspaces and the changes of the deployment if undefined. */
  readonly workspaceId: string | undefined;
  /** Part of the actor, the action, an id or the details, in any case; about 1 µs per change. Empty for all changes. */
  readonly text: string;
  /** Only changes with a lower id, for the next pages. Undefined for the newest ones. */
  readonly before: number | undefined;
  readonly limit: number;
}

/** A member that is undefined is not changed. `null` removes a limit. */
export interface KeySettings {
  readonly name?: string | undefined;
  readonly capabilities?: readonly Capability[] | undefined;
  readonly rpsLimit?: number | null | undefined;
  readonly cuLimit24hMilli?: number | null | undefined;
  readonly cuLimit30dMilli?: number | null | undefined;
  readonly allowedAddresses?: readonly string[] | null | undefined;
  readonly expiresAt?: number | null | undefined;
}

export interface WorkspaceSettings {
  /** Plan to set at once, higher or lower. Clears a pending plan. */
  readonly plan?: PlanName | undefined;
  /** `null` removes the limit. */
  readonly overageLimitCuMilli?: number | null | undefined;
}

export interface FoundKey {
  readonly key: KeyRecord;
  readonly workspaceName: string;
}

/** A key as clients see it, without its text. Times are RFC 3339; members without a value are omitted. */
// This is a type alias because an interface is not assignable to a record type.
export type KeyJson = {
  readonly id: string;
  readonly workspace_id: string;
  readonly name: string;
  readonly environment: Environment;
  readonly capabilities: readonly Capability[];
  readonly rps_limit?: number;
  readonly cu_limit_24h_milli?: number;
  readonly cu_limit_30d_milli?: number;
  readonly allowed_addresses?: readonly string[];
  readonly state: KeyState;
  readonly created_at: string;
  readonly expires_at?: string;
  readonly revoked_at?: string;
  readonly last_used_at?: string;
};

/**
 * Workspaces and keys for operators, without the rules for customers.
 *
 * When a method has returned, its change and the entry in the audit log are durable, and the gateway applies the change
 * at once. Methods throw or reject with a StoreError if the store cannot be used.
 */
export interface AccountsAdmin {
  readonly defaultCapabilities: readonly Capability[];
  /** Returns the terms that are in force now. */
  plan(name: PlanName): Plan;
  createWorkspace(wanted: NewWorkspace, by: ChangeAuthor): Promise<Workspace>;
  /** Returns the workspace with the plan that is in force now. */
  findWorkspace(id: string): Promise<Workspace | undefined>;
  /** Returns workspaces as stored, oldest first. A pending plan can be due. */
  listWorkspaces(limit: number): Promise<readonly Workspace[]>;
  /** Returns workspaces as stored, newest first. A pending plan can be due. */
  searchWorkspaces(search: WorkspaceSearch): Promise<readonly Workspace[]>;
  /** Applies settings without the rules for upgrades and downgrades by customers. */
  setWorkspace(
    id: string,
    settings: WorkspaceSettings,
    by: ChangeAuthor,
  ): Promise<Workspace | Failed>;
  workspaceJson(workspace: Workspace): Promise<WorkspaceJson>;
  createKey(wanted: NewKey, by: ChangeAuthor): Promise<IssuedKey | Failed>;
  findKey(id: string): Promise<KeyRecord | undefined>;
  /** Returns keys, newest first. A search takes about 1 µs per key. */
  searchKeys(search: KeySearch): Promise<readonly FoundKey[]>;
  /**
   * Issues a successor with the same capabilities and limits and, if the old key expires, the same lifetime. The old
   * key stays valid for `overlapMs`, but not longer than before. Only an active key without a successor can be rotated.
   */
  rotateKey(id: string, overlapMs: number, by: ChangeAuthor): Promise<RotatedKey | Failed>;
  /**
   * Only an active key can be changed; revocation and expiry are final. A rotated key may be set to expire earlier than
   * the end of its overlap, but not later.
   */
  setKey(id: string, settings: KeySettings, by: ChangeAuthor): Promise<KeyRecord | Failed>;
  /** A revoked key keeps the time of its first revocation. */
  revokeKey(id: string, by: ChangeAuthor): Promise<KeyRecord | Failed>;
  keyState(key: ApiKey): KeyState;
  keyJson(key: KeyRecord): KeyJson;
  /** Returns entries of the audit log, newest first. */
  searchChanges(search: ChangeSearch): Promise<readonly ChangeJson[]>;
}
