/** The `AccountStore` of the data folder: an SQLite database, which commands may use while a gateway runs. */
import type { DatabaseSync } from "node:sqlite";
import type { Awaitable, Clock } from "sluice-gateway/plugin";
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
import { explain } from "sluice-gateway/store";
import type {
  AccountStore,
  Change,
  ChangePage,
  KeySettings,
  KeyUse,
  Overrides,
  PendingPlan,
  Purchase,
  StoreChanges,
  StoredKey,
  WorkspaceSettings,
} from "../account-store.ts";
import { accountsReader, type AccountsReader } from "./accounts-reader.ts";
import { listChanges, searchChanges } from "./change-log.ts";
import { createKey, findKey, listKeys, revokeKey, rotateKey, setKey } from "./keys.ts";
import { readOverrides, replaceOverrides } from "./model-overrides.ts";
import { openAccountsDatabase, refuseDamaged } from "./schema.ts";
import { searchKeys } from "./search-keys.ts";
import { Transactions } from "./transactions.ts";
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

/** Time for which a read of a gateway waits for a lock. In WAL mode readers rarely have to wait. */
const readWaitMs = 50;
/** Time for which a change of a gateway waits for another process that writes. It blocks the event loop. */
const writeWaitMs = 250;
/**
 * Maximum duration of a transaction. Changes inside a transaction wait only for each other, so a longer one is stuck.
 */
const maxTransactionMs = 10_000;

/** Opens the accounts of `dataDir` for a command, which waits up to 5 s for a lock. Throws StoreError. */
export function openAccountStore(dataDir: string, clock: Pick<Clock, "after">): AccountStore {
  const writer = openAccountsDatabase(dataDir);
  try {
    return new EmbeddedAccountStore(writer, openAccountsDatabase(dataDir), dataDir, clock);
  } catch (error) {
    writer.close();
    throw explain(error, fileIn(dataDir));
  }
}

/**
 * Opens the accounts of `dataDir` for a gateway, whose event loop must not wait for locks for long. Checks the database
 * first. Throws StoreError.
 */
export function openGatewayAccountStore(
  dataDir: string,
  clock: Pick<Clock, "after">,
): EmbeddedAccountStore {
  const reader = openAccountsDatabase(dataDir);
  let writer: DatabaseSync | undefined;
  try {
    refuseDamaged(reader);
    // Opened now, because opening may wait for a lock longer than the event loop may block.
    writer = openAccountsDatabase(dataDir);
    reader.exec(`PRAGMA busy_timeout = ${readWaitMs}`);
    writer.exec(`PRAGMA busy_timeout = ${writeWaitMs}`);
    return new EmbeddedAccountStore(writer, reader, dataDir, clock);
  } catch (error) {
    writer?.close();
    reader.close();
    throw explain(error, fileIn(dataDir));
  }
}

/** Returns results at once, except that a change waits while a transaction of another caller waits for a promise. */
export class EmbeddedAccountStore implements AccountStore {
  /** The connection for changes, whose commits are on disk when they return. */
  readonly #writer: DatabaseSync;
  /** The connection for reads. It does not see the changes of an open transaction. */
  readonly #reader: DatabaseSync;
  readonly #dataDir: string;
  readonly #feed: AccountsReader;
  readonly #transactions: Transactions;
  #listener: () => Awaitable<void> = () => {};
  /** Number of the last change whose overrides have been returned. */
  #overridesAt: number;

  constructor(
    writer: DatabaseSync,
    reader: DatabaseSync,
    dataDir: string,
    clock: Pick<Clock, "after">,
  ) {
    this.#writer = writer;
    this.#reader = reader;
    this.#dataDir = dataDir;
    // This connection writes only times of last use, which may be lost. It therefore needs no fsync on the event loop.
    reader.exec("PRAGMA synchronous = NORMAL");
    this.#feed = accountsReader(reader);
    this.#overridesAt = this.#feed.seen;
    this.#transactions = new Transactions({
      db: writer,
      file: fileIn(dataDir),
      maxMs: maxTransactionMs,
      clock,
      // `AccountStore.onCommit` forbids a listener that throws, and the listener of an embedded store answers at once.
      committed: () => void this.#listener(),
    });
  }

  findByHash(hash: string): StoredKey | undefined {
    return this.#explained(() => this.#feed.find(hash));
  }

  hashOf(keyId: string): string | undefined {
    return this.#explained(() => this.#feed.hashOf(keyId));
  }

  followers(): undefined {
    return undefined;
  }

  changed(): StoreChanges {
    return this.#explained(() => {
      const keys = this.#feed.changed();
      const changes = { keys, overrides: undefined, hasLostChanges: false };
      if (this.#feed.seen === this.#overridesAt) return changes;
      const overrides = readOverrides(this.#reader);
      this.#overridesAt = this.#feed.seen;
      return { ...changes, overrides };
    });
  }

  saveUse(uses: readonly KeyUse[]): void {
    this.#explained(() => this.#feed.saveUse(uses));
  }

  createKey(wanted: NewKey, by: ChangeAuthor): Awaitable<IssuedKey | Failed> {
    return this.write((db) => createKey(db, wanted, by));
  }

  findKey(id: string): KeyRecord | undefined {
    return this.#read((db) => findKey(db, id));
  }

  listKeys(workspaceId?: string): readonly KeyRecord[] {
    return this.#read((db) => listKeys(db, workspaceId));
  }

  searchKeys(search: KeySearch): readonly FoundKey[] {
    return this.#read((db) => searchKeys(db, search));
  }

  setKey(id: string, settings: KeySettings, by: ChangeAuthor): Awaitable<KeyRecord | Failed> {
    return this.write((db) => setKey(db, id, settings, by));
  }

  revokeKey(id: string, by: ChangeAuthor): Awaitable<KeyRecord | Failed> {
    return this.write((db) => revokeKey(db, id, by));
  }

  rotateKey(id: string, overlapMs: number, by: ChangeAuthor): Awaitable<RotatedKey | Failed> {
    return this.write((db) => rotateKey(db, id, overlapMs, by));
  }

  createWorkspace(wanted: NewWorkspace, by: ChangeAuthor): Awaitable<Workspace> {
    return this.write((db) => createWorkspace(db, wanted, by));
  }

  findWorkspace(id: string): Workspace | undefined {
    return this.#read((db) => findWorkspace(db, id));
  }

  listWorkspaces(limit?: number): readonly Workspace[] {
    return this.#read((db) => listWorkspaces(db, limit));
  }

  searchWorkspaces(search: WorkspaceSearch): readonly Workspace[] {
    return this.#read((db) => searchWorkspaces(db, search));
  }

  setWorkspace(
    id: string,
    settings: WorkspaceSettings,
    by: ChangeAuthor,
  ): Awaitable<Workspace | Failed> {
    return this.write((db) => setWorkspace(db, id, settings, by));
  }

  upgrade(id: string, plan: PlanName, by: ChangeAuthor): Awaitable<Workspace | Failed> {
    return this.write((db) => upgrade(db, id, plan, by));
  }

  downgrade(id: string, pending: PendingPlan, by: ChangeAuthor): Awaitable<Workspace | Failed> {
    return this.write((db) => downgrade(db, id, pending, by));
  }

  cancelDowngrade(id: string, by: ChangeAuthor): Awaitable<Workspace | Failed> {
    return this.write((db) => cancelDowngrade(db, id, by));
  }

  purchase(id: string, amountMilliCu: number, by: ChangeAuthor): Awaitable<Purchase | Failed> {
    return this.write((db) => purchase(db, id, amountMilliCu, by));
  }

  overrides(): Overrides {
    return this.#read(readOverrides);
  }

  replaceOverrides(
    network: string,
    models: readonly ModelOverride[],
    by: ChangeAuthor,
  ): Awaitable<void> {
    return this.write((db) => replaceOverrides(db, network, models, by));
  }

  changes(page?: ChangePage): readonly Change[] {
    return this.#read((db) => listChanges(db, page));
  }

  searchChanges(search: ChangeSearch): readonly Change[] {
    return this.#read((db) => searchChanges(db, search));
  }

  transaction<T>(work: () => Awaitable<T>): Awaitable<T> {
    return this.#transactions.run(work);
  }

  onCommit(listener: () => Awaitable<void>): void {
    this.#listener = listener;
  }

  /** Rolls back an open transaction. */
  close(): void {
    if (!this.#reader.isOpen) return;
    this.#writer.close();
    this.#reader.close();
  }

  /** Runs `work` in a transaction on the connection for changes, for the other tables of this database. */
  write<T>(work: (db: DatabaseSync) => T): Awaitable<T> {
    return this.#transactions.run(() => this.#explained(() => work(this.#writer)));
  }

  #read<T>(work: (db: DatabaseSync) => T): T {
    return this.#explained(() => work(this.#reader));
  }

  #explained<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw explain(error, fileIn(this.#dataDir));
    }
  }
}

function fileIn(dataDir: string): string {
  return `accounts.db in ${dataDir}`;
}
