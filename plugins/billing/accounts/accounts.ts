/** Accounts in a running gateway: who is calling, answered from memory, true to the database within a second. */
import { hash } from "node:crypto";
import type { DatabaseSync } from "node:sqlite";
import type {
  Accounts,
  Clock,
  Environment,
  Log,
  ModelOverride,
  Principal,
} from "../../../src/plugin.ts";
import { explain } from "../../../src/store/store-error.ts";
import { accountsReader, type AccountsReader } from "./accounts-reader.ts";
import { keyEnvironment } from "./key-text.ts";
import type { KeyEntry, Plans } from "./principal.ts";
import { readOverrides, type Overrides } from "./model-overrides.ts";
import { KeyCache, type KeyCacheLimits } from "./key-cache.ts";
import { openAccountsDatabase, refuseDamaged } from "./schema.ts";
import { bearer, expired, missing, wrongAddress, anonymousFor, unauthorized } from "./anonymous.ts";

export interface AccountsOptions {
  readonly dataDir: string;
  readonly environment: Environment;
  readonly plans: Plans;
  readonly clock: Clock;
  readonly log: Log;
  readonly remember?: KeyCacheLimits;
}

interface AccountsStats {
  /** False while the database cannot be read: keys in memory still work, changes and other keys are not seen. */
  readonly healthy: boolean;
  /** Keys in memory. */
  readonly keys: number;
  /** Hashes of unknown and revoked keys in memory. */
  readonly unknown: number;
  /** How often a key was not in memory and the database was asked. */
  readonly lookups: number;
}

export interface AccountsService extends Accounts {
  stats(): AccountsStats;
  /** Takes the database's changes in now; by itself this happens every 250 ms. */
  refresh(): void;
  /** What was changed in a network's catalogue; the same map while nothing was. */
  overrides(network: string): ReadonlyMap<string, ModelOverride>;
  /**
   * Runs `work` on a connection whose commits are on disk when it returns; what it changed is known at once. Inside
   * another `write` it joins whatever transaction is open there. Throws StoreError when the database cannot be written.
   */
  write<T>(work: (db: DatabaseSync) => T): T;
  /** Runs `work` on a connection that only reads. Throws StoreError. */
  read<T>(work: (db: DatabaseSync) => T): T;
  /** The plans of a reloaded pipeline.yaml: where they differ, every principal is made anew. */
  setPlans(plans: Plans): void;
  /** Writes the last uses and closes the database. What is in memory keeps answering. */
  close(): void;
}

const pollMs = 250;
const saveUseMs = 60_000;
/**
 * Rows in one write of last uses, about 3 µs each: the event loop waits for it. What is left follows at the next poll.
 */
const saveUseRows = 1_000;
/** How long a look-up waits for a lock. In WAL mode readers hardly ever have to. */
const lockWaitMs = 50;
/** How long a change waits for another process that writes: the event loop waits too. */
const writeWaitMs = 250;

/** Keys whose hashes are at hand at a time; those of others are made at every request (1 µs). */
const maxDigests = 4_096;

const noOverrides: ReadonlyMap<string, ModelOverride> = new Map();
/** Opens the accounts of a data folder. Throws StoreError when they cannot be used. */
export function openAccounts(options: AccountsOptions): AccountsService {
  const db = openAccountsDatabase(options.dataDir);
  let writer: DatabaseSync | undefined;
  try {
    refuseDamaged(db);
    writer = openWriter(options.dataDir);
    return new StoredAccounts(db, writer, options);
  } catch (error) {
    writer?.close();
    db.close();
    throw explain(error, `accounts.db in ${options.dataDir}`);
  }
}

class StoredAccounts implements AccountsService {
  readonly #db: DatabaseSync;
  readonly #reader: AccountsReader;
  readonly #keys: KeyCache;
  /**
   * The SHA-256 of keys that were just used, by the header that they came in; emptied at every poll, so that no text of
   * a key stays. What may be done with a hash is looked up at every request all the same. A Map tells a guesser nothing
   * by its time: texts are compared once their seeded hashes are equal.
   */
  readonly #digests = new Map<string, string>();
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #timers: readonly Disposable[];
  readonly #environment: Environment;
  /** All of the header but the 32 hex digits. */
  readonly #head: string;
  readonly #dataDir: string;
  /** For `write`. Opened at the start: opening waits longer for a lock than the event loop may. */
  readonly #writer: DatabaseSync;
  #overrides: Overrides;
  /** The change up to which `#overrides` is read. */
  #overridesAt: number;
  #healthy = true;
  /** Last uses that one write could not hold. */
  #useLeft = false;
  #lookups = 0;

  constructor(db: DatabaseSync, writer: DatabaseSync, options: AccountsOptions) {
    this.#db = db;
    this.#writer = writer;
    this.#dataDir = options.dataDir;
    this.#clock = options.clock;
    this.#log = options.log;
    this.#environment = options.environment;
    this.#head = `${bearer}gateway_${options.environment}_`;
    const limits = options.remember ?? { keys: 32_768, unknown: 16_384 };
    this.#keys = new KeyCache(options.plans, limits);
    // This connection writes nothing but last uses, which may be lost: no fsync on the event loop.
    db.exec(`PRAGMA busy_timeout = ${lockWaitMs}; PRAGMA synchronous = NORMAL`);
    this.#reader = accountsReader(db);
    this.#overridesAt = this.#reader.seen;
    this.#overrides = readOverrides(db);
    this.#timers = [
      this.#clock.every(pollMs, () => {
        this.#digests.clear();
        this.refresh();
        if (this.#useLeft) this.#saveUse(saveUseRows);
      }),
      this.#clock.every(saveUseMs, () => this.#saveUse(saveUseRows)),
    ];
  }

  identify(authorization: string | undefined, address = ""): Principal {
    if (authorization === undefined) return missing;
    const head = this.#head;
    if (authorization.length !== head.length + 32 || !authorization.startsWith(head)) {
      return anonymousFor(authorization);
    }
    const known = this.#digests.get(authorization);
    const digest = known ?? hash("sha256", authorization.slice(bearer.length));
    const entry = this.#keys.get(digest) ?? this.#lookUp(digest, authorization);
    if (entry === undefined) return anonymousFor(authorization);
    if (known === undefined && this.#digests.size < maxDigests) {
      this.#digests.set(authorization, digest);
    }
    return this.#admit(entry, address);
  }

  identifyKey(keyId: string, address: string): Principal {
    const entry = this.#entryOf(keyId);
    // An id says nothing of the environment, which is part of a key's text.
    if (entry?.key.environment !== this.#environment) return unauthorized;
    return this.#admit(entry, address);
  }

  #admit(entry: KeyEntry, address: string): Principal {
    const now = this.#clock.now();
    if (now >= entry.expiresAt) return expired;
    if (entry.allows !== undefined && !entry.allows(address)) return wrongAddress;
    if (now >= entry.planUntil || now < entry.planFrom) this.#keys.renew(entry, now);
    entry.usedAt = now;
    return entry.principal;
  }

  stats(): AccountsStats {
    return { healthy: this.#healthy, lookups: this.#lookups, ...this.#keys.size };
  }

  refresh(): void {
    try {
      for (const stored of this.#reader.changed()) this.#keys.update(stored, this.#clock.now());
      if (this.#reader.seen !== this.#overridesAt) this.#readOverrides();
      if (!this.#healthy) this.#log.info({}, "accounts are readable again");
      this.#healthy = true;
    } catch (error) {
      this.#unreadable(error);
    }
  }

  overrides(network: string): ReadonlyMap<string, ModelOverride> {
    return this.#overrides.get(network) ?? noOverrides;
  }

  write<T>(work: (db: DatabaseSync) => T): T {
    try {
      return work(this.#writer);
    } catch (error) {
      throw explain(error, `accounts.db in ${this.#dataDir}`);
    } finally {
      this.refresh();
    }
  }

  read<T>(work: (db: DatabaseSync) => T): T {
    try {
      return work(this.#db);
    } catch (error) {
      throw explain(error, `accounts.db in ${this.#dataDir}`);
    }
  }

  setPlans(plans: Plans): void {
    this.#keys.setPlans(plans, this.#clock.now());
  }

  close(): void {
    if (!this.#db.isOpen) return;
    for (const timer of this.#timers) timer[Symbol.dispose]();
    this.#saveUse(Infinity);
    this.#writer.close();
    this.#db.close();
  }

  /** The hex digits are looked at only here: a header that was found by its hash has them. */
  #lookUp(digest: string, authorization: string): KeyEntry | undefined {
    if (this.#keys.isUnknown(digest)) return undefined;
    if (keyEnvironment(authorization, bearer.length) === undefined) return undefined;
    this.#lookups++;
    try {
      return this.#keys.remember(digest, this.#reader.find(digest), this.#clock.now());
    } catch (error) {
      this.#unreadable(error);
      return undefined;
    }
  }

  #entryOf(keyId: string): KeyEntry | undefined {
    try {
      const digest = this.#reader.hashOf(keyId);
      if (digest === undefined) return undefined;
      const known = this.#keys.get(digest);
      if (known !== undefined) return known;
      return this.#keys.remember(digest, this.#reader.find(digest), this.#clock.now());
    } catch (error) {
      this.#unreadable(error);
      return undefined;
    }
  }

  #readOverrides(): void {
    this.#overridesAt = this.#reader.seen;
    this.#overrides = readOverrides(this.#db);
  }

  #saveUse(most: number): void {
    const entries = this.#keys.unsaved(most);
    this.#useLeft = false;
    if (entries.length === 0) return;
    try {
      this.#reader.saveUse(entries);
      this.#keys.saved(entries);
      this.#useLeft = entries.length === most;
    } catch (error) {
      this.#log.warn({ err: error }, "cannot save the time of the last use of keys; trying again");
    }
  }

  /** Logs the error once, although the accounts are read four times per second. */
  #unreadable(error: unknown): void {
    if (this.#healthy) {
      this.#log.error({ err: error }, "cannot read accounts; keys in memory stay valid");
    }
    this.#healthy = false;
  }
}

/** Commits with fsync, unlike the connection that saves last uses. */
function openWriter(dataDir: string): DatabaseSync {
  const db = openAccountsDatabase(dataDir);
  db.exec(`PRAGMA busy_timeout = ${writeWaitMs}`);
  return db;
}
