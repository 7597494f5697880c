/** The `AccountStore` in PostgreSQL, which any number of gateways and commands may use at the same time. */
import type { Awaitable, Clock, Postgres, RunStatement } from "sluice-gateway/plugin";
import type {
  ChangeAuthor,
  ChangeSearch,
  Failed,
  FoundKey,
  IssuedKey,
  KeyRecord,
  KeySearch,
  ModelOverride,
  NewKey,
  NewWorkspace,
  PlanName,
  RotatedKey,
  Workspace,
  WorkspaceSearch,
} from "sluice-gateway/services";
import type {
  AccountStore,
  Change,
  ChangePage,
  Followers,
  KeySettings,
  KeyUse,
  Overrides,
  PendingPlan,
  Purchase,
  StoreChanges,
  StoredKey,
  WorkspaceSettings,
} from "../account-store.ts";
import { PostgresChangeFeed } from "./change-feed.ts";
import { listChanges, searchChanges } from "./change-log.ts";
import { KeyLookups } from "./key-lookups.ts";
import { createKey, findKey, listKeys, revokeKey, rotateKey, setKey } from "./keys.ts";
import type { KnownHashes } from "./known-hashes.ts";
import { readOverrides, replaceOverrides } from "./model-overrides.ts";
import { searchKeys } from "./search-keys.ts";
import { findByHashes, hashOf, readHashes, saveUse } from "./stored-keys.ts";
import { PostgresTransactions } from "./transactions.ts";
import {
  cancelDowngrade,
  createWorkspace,
  downgrade,
  findWorkspace,
  listWorkspaces,
  purchase,
  searchWorkspaces,
  setWorkspace,
  upgrade,
} from "./workspaces.ts";

/** Opens the accounts. The tables must exist. Rejects with StoreError. */
export async function openPostgresAccountStore(
  database: Postgres,
  clock: Pick<Clock, "after" | "monotonic">,
): Promise<PostgresAccountStore> {
  const store = new PostgresAccountStore(database, clock);
  await store.skipChanges();
  return store;
}

/** Maximum number of keys that do not seem to exist, and are looked up nevertheless, between two reads of the changes. */
const maxDoubted = 5;

/** Accounts in PostgreSQL. The store does not close the connections of its database. */
export class PostgresAccountStore implements AccountStore {
  readonly transactions: PostgresTransactions;
  /** Runs one statement, in the open transaction or on its own. */
  readonly #query: RunStatement = (statement, values) => this.transactions.query(statement, values);
  readonly #lookups: KeyLookups;
  readonly #feed: PostgresChangeFeed;
  #listener: () => Awaitable<void> = () => {};
  #known: KnownHashes | undefined;
  /** False after a failed read of the changes, because keys may then be missing in `#known`. */
  #isFollowing = false;
  #doubted = 0;

  constructor(database: Postgres, clock: Pick<Clock, "after" | "monotonic">) {
    const committed = (): Awaitable<void> => this.#listener();
    this.transactions = new PostgresTransactions({ database, clock, committed });
    this.#lookups = new KeyLookups((hashes) => findByHashes(this.#query, hashes));
    this.#feed = new PostgresChangeFeed(this.#query, database.replica);
  }

  /** Marks all existing changes as read, so that `changed` does not return them. */
  skipChanges(): Promise<void> {
    return this.#feed.skip();
  }

  /**
   * Reads the hashes of all keys. After that, `findByHash` finds out without a statement that a key does not exist. A
   * key that another replica has created is known as soon as `changed` has returned it. A few unknown keys are looked
   * up nevertheless, so that a key that was just created works at once.
   */
  async loadHashes(): Promise<void> {
    this.#known = await readHashes(this.#query);
  }

  findByHash(hash: string): Awaitable<StoredKey | undefined> {
    const isUnknown = this.#isFollowing && this.#known?.mayHave(hash) === false;
    return isUnknown && ++this.#doubted > maxDoubted ? undefined : this.#lookups.find(hash);
  }

  async changed(): Promise<StoreChanges> {
    this.#doubted = 0;
    try {
      const changes = await this.#feed.changed();
      if (changes.hasLostChanges && this.#known !== undefined) await this.loadHashes();
      for (const { hash } of changes.keys) this.#known?.add(hash);
      this.#isFollowing = true;
      return changes;
    } catch (error) {
      this.#isFollowing = false;
      throw error;
    }
  }

  followers(): Promise<Followers> {
    return this.#feed.followers();
  }

  hashOf(keyId: string): Promise<string | undefined> {
    return hashOf(this.#query, keyId);
  }

  saveUse(uses: readonly KeyUse[]): Promise<void> {
    return saveUse(this.#query, uses);
  }

  createKey(wanted: NewKey, by: ChangeAuthor): Promise<IssuedKey | Failed> {
    return this.transactions.write((run) => createKey(run, wanted, by));
  }

  findKey(id: string): Promise<KeyRecord | undefined> {
    return findKey(this.#query, id);
  }

  listKeys(workspaceId?: string): Promise<readonly KeyRecord[]> {
    return listKeys(this.#query, workspaceId);
  }

  searchKeys(search: KeySearch): Promise<readonly FoundKey[]> {
    return searchKeys(this.#query, search);
  }

  setKey(id: string, settings: KeySettings, by: ChangeAuthor): Promise<KeyRecord | Failed> {
    return this.transactions.write((run) => setKey(run, id, settings, by));
  }

  revokeKey(id: string, by: ChangeAuthor): Promise<KeyRecord | Failed> {
    return this.transactions.write((run) => revokeKey(run, id, by));
  }

  rotateKey(id: string, overlapMs: number, by: ChangeAuthor): Promise<RotatedKey | Failed> {
    return this.transactions.write((run) => rotateKey(run, id, overlapMs, by));
  }

  createWorkspace(wanted: NewWorkspace, by: ChangeAuthor): Promise<Workspace> {
    return this.transactions.write((run) => createWorkspace(run, wanted, by));
  }

  findWorkspace(id: string): Promise<Workspace | undefined> {
    return findWorkspace(this.#query, id);
  }

  listWorkspaces(limit?: number): Promise<readonly Workspace[]> {
    return listWorkspaces(this.#query, limit);
  }

  searchWorkspaces(search: WorkspaceSearch): Promise<readonly Workspace[]> {
    return searchWorkspaces(this.#query, search);
  }

  setWorkspace(
    id: string,
    settings: WorkspaceSettings,
    by: ChangeAuthor,
  ): Promise<Workspace | Failed> {
    return this.transactions.write((run) => setWorkspace(run, id, settings, by));
  }

  upgrade(id: string, plan: PlanName, by: ChangeAuthor): Promise<Workspace | Failed> {
    return this.transactions.write((run) => upgrade(run, id, plan, by));
  }

  downgrade(id: string, pending: PendingPlan, by: ChangeAuthor): Promise<Workspace | Failed> {
    return this.transactions.write((run) => downgrade(run, id, pending, by));
  }

  cancelDowngrade(id: string, by: ChangeAuthor): Promise<Workspace | Failed> {
    return this.transactions.write((run) => cancelDowngrade(run, id, by));
  }

  purchase(id: string, amountMilliCu: number, by: ChangeAuthor): Promise<Purchase | Failed> {
    return this.transactions.write((run) => purchase(run, id, amountMilliCu, by));
  }

  overrides(): Promise<Overrides> {
    return readOverrides(this.#query);
  }

  replaceOverrides(
    network: string,
    models: readonly ModelOverride[],
    by: ChangeAuthor,
  ): Promise<void> {
    return this.transactions.write((run) => replaceOverrides(run, network, models, by));
  }

  changes(page?: ChangePage): Promise<readonly Change[]> {
    return listChanges(this.#query, page);
  }

  searchChanges(search: ChangeSearch): Promise<readonly Change[]> {
    return searchChanges(this.#query, search);
  }

  transaction<T>(work: () => Awaitable<T>): Promise<T> {
    return this.transactions.run(work);
  }

  onCommit(listener: () => Awaitable<void>): void {
    this.#listener = listener;
  }

  /**
   * The store can be closed even if the database cannot be reached. The database then removes this replica after an
   * hour.
   */
  async close(): Promise<void> {
    await this.#feed.leave().catch(() => {});
  }
}
