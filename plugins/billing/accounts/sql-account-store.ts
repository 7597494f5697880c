/** The `AccountStore` on the tables of the accounts. Several gateways and commands may use them at the same time. */
import type { AccountStore, StoreChanges, StoredKey } from "./account-store.ts";
import { ChangeFeed, readFollowers, changeLog, modelOverrides } from "./change-log.ts";
import type { JoinedSql } from "./joined-sql.ts";
import {
  KeyLookups,
  findByHashes,
  hashOf,
  readHashes,
  saveUse,
  type KnownHashes,
} from "./stored-keys.ts";
import { keysIn } from "./keys.ts";
import { workspacesIn } from "./workspaces.ts";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { explain, isMoved, StoreError } from "sluice-gateway/internal/store";
import { accountTables } from "./tables.ts";

export interface SqlAccountStore extends AccountStore {
  /**
   * Reads the hashes of all keys. After that, `findByHash` finds out without a statement that a key does not exist. A
   * key that another process has created is known as soon as `changed` has returned it. A few unknown keys are looked
   * up nevertheless, so that a key that was just created works at once.
   */
  loadHashes(): Promise<void>;
}

/** Maximum number of keys per read of the changes that do not seem to exist, and are looked up nevertheless. */
const maxDoubted = 5;

/**
 * All existing changes count as read. Rejects with StoreError. `isShared`: true if several gateways share the store.
 * They show which changes they have applied.
 */
export async function openAccountStore(
  sql: JoinedSql,
  isShared: boolean,
): Promise<SqlAccountStore> {
  const { query } = sql;
  const feed = new ChangeFeed(query);
  await feed.skip();
  const keys = new WantedKeys(new KeyLookups((hashes) => findByHashes(query, hashes)));
  const loadHashes = async (): Promise<void> => keys.setKnown(await readHashes(query));

  const changed = async (newest?: number): Promise<StoreChanges> => {
    const changes = await feed.changed(newest);
    if (changes.hasLostChanges && keys.isLimited) await loadHashes();
    return changes;
  };
  return {
    ...workspacesIn(sql),
    ...keysIn(sql),
    ...modelOverrides(sql),
    ...changeLog(sql),
    loadHashes,
    findByHash: (hash) => keys.find(hash),
    changed: (newest) => keys.follow(() => changed(newest)),
    seenChange: () => feed.lastChange,
    hashOf: (keyId) => hashOf(query, keyId),
    followers: async () => (isShared ? readFollowers(query) : undefined),
    saveUse: (uses) => saveUse(query, uses),
    transaction: (work) => sql.transaction(work),
    onCommit: (listener) => sql.onCommit(listener),
  };
}

/** Looks up keys by the hash of their text. Most look-ups of keys that do not exist need no statement. */
class WantedKeys {
  readonly #lookups: KeyLookups;
  #known: KnownHashes | undefined;
  /** False after a failed read of the changes, because keys may then be missing in `#known`. */
  #isFollowing = false;
  readonly #doubted = new Set<string>();

  constructor(lookups: KeyLookups) {
    this.#lookups = lookups;
  }

  get isLimited(): boolean {
    return this.#known !== undefined;
  }

  setKnown(known: KnownHashes): void {
    this.#known = known;
  }

  async find(hash: string): Promise<StoredKey | undefined> {
    const isUnknown = this.#isFollowing && this.#known?.mayHave(hash) === false;
    if (isUnknown && !this.#doubted.has(hash)) {
      if (this.#doubted.size === maxDoubted) return undefined;
      this.#doubted.add(hash);
    }
    return this.#lookups.find(hash);
  }

  async follow(read: () => Promise<StoreChanges>): Promise<StoreChanges> {
    this.#doubted.clear();
    try {
      const changes = await read();
      for (const { hash } of changes.keys) this.#known?.add(hash);
      this.#isFollowing = true;
      return changes;
    } catch (error) {
      this.#isFollowing = false;
      throw error;
    }
  }
}

/** The files that this release and earlier ones keep accounts in. */
const files = ["state.db", ...accountTables.takeovers.map(({ file }) => file)];

/** Throws StoreError if the folder has workspaces that `sluice store migrate` has not copied. */
export function refuseUnmoved(dataDir: string): void {
  if (isMoved(dataDir) || !files.some((file) => hasWorkspaces(join(dataDir, file)))) return;
  throw new StoreError(
    "SLUICE_STORE_NOT_MOVED",
    `the data folder ${dataDir} has accounts that are not in PostgreSQL`,
    "Run `sluice store migrate`. To start without these accounts, move state.db and accounts.db out of the folder.",
  );
}

function hasWorkspaces(path: string): boolean {
  if (!existsSync(path)) return false;
  try {
    using db = new DatabaseSync(path, { readOnly: true, timeout: 5_000 });
    const tables = db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'workspaces'");
    return (
      tables.get() !== undefined &&
      db.prepare("SELECT 1 FROM workspaces LIMIT 1").get() !== undefined
    );
  } catch (error) {
    throw explain(error, path);
  }
}
