/** The store of workspaces, keys and the audit log. test/contract/accounts.ts tests it in SQLite and PostgreSQL. */
import type {
  AccountsAdmin,
  ApiKey,
  ChangeAuthor,
  ChangeSearch,
  Failed,
  KeyRecord,
  ModelOverride,
  PlanName,
  Workspace,
} from "sluice-gateway/services";
import type { gatewayMarks } from "sluice-gateway/internal/store";

export type { KeySettings, WorkspaceSettings } from "sluice-gateway/services";

/** A key with the SHA-256 of its text (lower-case hex) and its workspace as stored. */
export interface StoredKey {
  readonly hash: string;
  readonly key: ApiKey;
  readonly workspace: Workspace;
}

/** Time of the last use of a key, in milliseconds since 1970. */
export interface KeyUse {
  readonly keyId: string;
  readonly usedAt: number;
}

/** The overrides by network and model id, in the order in which they were given. */
export type Overrides = ReadonlyMap<string, ReadonlyMap<string, ModelOverride>>;

export interface StoreChanges {
  /** Keys that have changed, directly or through their workspace. */
  readonly keys: readonly StoredKey[];
  /** Undefined if no override has changed. */
  readonly overrides: Overrides | undefined;
  /**
   * True if the store has lost changes that were returned earlier, because a backup of it was restored. Everything that
   * was read from it may then be wrong.
   */
  readonly hasLostChanges: boolean;
}

/** The gateways that read the changes of a store from other processes. */
export interface Followers {
  /** 0 without a change. */
  readonly newestChange: number;
  readonly followers: readonly Follower[];
}

/** `mark`: number of the last change that the gateway has applied. */
export type Follower = Awaited<ReturnType<typeof gatewayMarks>>[number];

/** A lower plan, and the time at which it takes effect (milliseconds since 1970). */
export interface PendingPlan {
  readonly plan: PlanName;
  readonly at: number;
}

export interface Purchase {
  readonly purchaseId: string;
  readonly workspace: Workspace;
}

export interface Change extends ChangeAuthor {
  /** Ids ascend in the order of commits. */
  readonly id: number;
  readonly action: string;
  /** Empty for a change of the deployment. */
  readonly workspaceId: string;
  readonly keyId: string | undefined;
  /** The new settings as given. Never contains a secret. */
  readonly details: unknown;
}

export interface ChangePage {
  /** All workspaces and the changes of the deployment if undefined. */
  readonly workspaceId?: string | undefined;
  readonly after?: number | undefined;
  readonly limit?: number | undefined;
}

/**
 * Every method rejects with a StoreError if the store cannot be used. When its promise has resolved, or the surrounding
 * transaction has committed, its change and the entry in the audit log are durable.
 */
export interface AccountStore extends Pick<
  AccountsAdmin,
  | "createKey"
  | "findKey"
  | "searchKeys"
  | "setKey"
  | "revokeKey"
  | "rotateKey"
  | "createWorkspace"
  | "searchWorkspaces"
  | "setWorkspace"
> {
  /** Returns the key whose text has this SHA-256 (lower-case hex). */
  findByHash(hash: string): Promise<StoredKey | undefined>;
  hashOf(keyId: string): Promise<string | undefined>;
  /**
   * Returns what has changed since the store was opened, or since the last call. `newest`: the number of the newest
   * change, if it is known. No statement is needed if it has been returned.
   */
  changed(newest?: number): Promise<StoreChanges>;
  /** Returns the number of the last change that `changed` has returned. */
  seenChange(): number;
  /** Undefined if gateways do not report which changes they have applied. */
  followers(): Promise<Followers | undefined>;
  /** Stores times of last use. An earlier time never replaces a later one. They may be lost in a crash. */
  saveUse(uses: readonly KeyUse[]): Promise<void>;

  /** Returns the keys of one workspace, or of all, oldest first. */
  listKeys(workspaceId?: string): Promise<readonly KeyRecord[]>;
  /** Returns the workspace as stored. `applyDuePlan` returns it with the plan that is in force. */
  findWorkspace(id: string): Promise<Workspace | undefined>;
  /** Returns at most `limit` workspaces (default: all) as stored, oldest first. */
  listWorkspaces(limit?: number): Promise<readonly Workspace[]>;
  /** Changes to a higher plan at once and cancels a pending downgrade. */
  upgrade(id: string, plan: PlanName, by: ChangeAuthor): Promise<Workspace | Failed>;
  /** Changes to a lower plan from `pending.at` on, and replaces a pending downgrade. */
  downgrade(id: string, pending: PendingPlan, by: ChangeAuthor): Promise<Workspace | Failed>;
  /** Cancels a pending downgrade. A downgrade whose date has passed is in effect and cannot be cancelled. */
  cancelDowngrade(id: string, by: ChangeAuthor): Promise<Workspace | Failed>;
  /** Adds purchased credit, a positive safe integer. It fails if the total would exceed the safe integers. */
  purchase(id: string, amountMilliCu: number, by: ChangeAuthor): Promise<Purchase | Failed>;

  overrides(): Promise<Overrides>;
  /** Replaces all overrides of a network. `models` must not contain the same id twice. */
  replaceOverrides(
    network: string,
    models: readonly ModelOverride[],
    by: ChangeAuthor,
  ): Promise<void>;
  /** Returns a page of the audit log, in the order of commits. */
  changes(page?: ChangePage): Promise<readonly Change[]>;
  /** Returns entries of the audit log, newest first. */
  searchChanges(search: ChangeSearch): Promise<readonly Change[]>;

  /**
   * Runs `work` in one transaction, which all changes inside `work` join, even after a promise. It commits when `work`
   * has succeeded. When `work` has failed, it rolls back and fails with the same error.
   */
  transaction<T>(work: () => Promise<T>): Promise<T>;
  /** Calls `listener` after every commit, before the result of the change is returned. It must not throw. */
  onCommit(listener: () => Promise<void>): void;
}
