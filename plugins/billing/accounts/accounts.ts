/**
 * Accounts in a running gateway: identifies callers from memory. Changes of the database are seen within one second.
 */
import { hash } from "node:crypto";
import type { Clock, Environment, Log } from "sluice-gateway/plugin";
import type { Callers, ModelOverride, Plan, PlanName, Principal } from "sluice-gateway/services";
import type { Overrides } from "./account-store.ts";
import type { EmbeddedAccountStore } from "./embedded/embedded-account-store.ts";
import { keyEnvironment } from "./key-text.ts";
import type { KeyEntry, Plans } from "./principal.ts";
import { KeyCache, type KeyCacheLimits } from "./key-cache.ts";
import { bearer, expired, missing, wrongAddress, anonymousFor, unauthorized } from "./anonymous.ts";

export interface AccountsOptions {
  /** Closed with the accounts. */
  readonly store: EmbeddedAccountStore;
  readonly environment: Environment;
  readonly plans: Plans;
  readonly clock: Clock;
  readonly log: Log;
  readonly remember?: KeyCacheLimits;
}

interface AccountsStats {
  /** False while the database cannot be read. Keys in memory still work; changes and other keys are not seen. */
  readonly healthy: boolean;
  /** Number of keys in memory. */
  readonly keys: number;
  /** Number of hashes of unknown and revoked keys in memory. */
  readonly unknown: number;
  /** Number of times that a key was not in memory and was read from the database. */
  readonly lookups: number;
}

export interface AccountsService extends Callers {
  /** A change through this store is visible to `identify` and `overrides` as soon as it has been answered. */
  readonly store: EmbeddedAccountStore;
  stats(): AccountsStats;
  /** Reads the changes of the database now. This also happens every 250 ms. */
  refresh(): void;
  /** Returns the model overrides of a network. The map stays the same object until an override changes. */
  overrides(network: string): ReadonlyMap<string, ModelOverride>;
  /** Sets the plans of a reloaded pipeline.yaml. If they differ, every principal is created again. */
  setPlans(plans: Plans): void;
  /** Returns the terms of a plan that are in force. */
  plan(name: PlanName): Plan;
  /** Writes the times of last use and closes the database. Keys in memory still work. */
  close(): void;
}

const pollMs = 250;
const saveUseMs = 60_000;
/**
 * Maximum number of times of last use per write, about 3 µs each, because a write blocks the event loop. The rest is
 * written at the next poll.
 */
const saveUseRows = 1_000;

/** Maximum number of keys whose hashes are cached. The hashes of other keys are computed per request (1 µs). */
const maxDigests = 4_096;

const noOverrides: ReadonlyMap<string, ModelOverride> = new Map();

/** Opens the accounts of a store. Throws StoreError, and closes the store, if they cannot be used. */
export function openAccounts(options: AccountsOptions): AccountsService {
  try {
    return new StoredAccounts(options, options.store.overrides());
  } catch (error) {
    options.store.close();
    throw error;
  }
}

class StoredAccounts implements AccountsService {
  readonly store: EmbeddedAccountStore;
  readonly #keys: KeyCache;
  /**
   * SHA-256 hashes of recently used keys, by the Authorization header that contained them. The map is emptied at every
   * poll, so that no text of a key stays in memory. The permissions of a hash are still looked up per request. The
   * timing of a Map reveals nothing to a guesser: texts are compared only if their seeded hashes are equal.
   */
  readonly #digests = new Map<string, string>();
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #timers: readonly Disposable[];
  readonly #environment: Environment;
  /** The Authorization header of a key without the 32 hex digits. */
  readonly #head: string;
  #overrides: Overrides;
  #healthy = true;
  /** True if the last write did not include all times of last use. */
  #useLeft = false;
  #lookups = 0;
  #isClosed = false;

  constructor(options: AccountsOptions, overrides: Overrides) {
    this.store = options.store;
    this.#overrides = overrides;
    this.#clock = options.clock;
    this.#log = options.log;
    this.#environment = options.environment;
    this.#head = `${bearer}gateway_${options.environment}_`;
    const limits = options.remember ?? { keys: 32_768, unknown: 16_384 };
    this.#keys = new KeyCache(options.plans, limits);
    this.store.onCommit(() => this.refresh());
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
    // An id does not contain the environment, unlike the text of a key.
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
      const { keys, overrides } = this.store.changed();
      for (const stored of keys) this.#keys.update(stored, this.#clock.now());
      if (overrides !== undefined) this.#overrides = overrides;
      if (!this.#healthy) this.#log.info({}, "accounts are readable again");
      this.#healthy = true;
    } catch (error) {
      this.#unreadable(error);
    }
  }

  overrides(network: string): ReadonlyMap<string, ModelOverride> {
    return this.#overrides.get(network) ?? noOverrides;
  }

  setPlans(plans: Plans): void {
    this.#keys.setPlans(plans, this.#clock.now());
  }

  plan(name: PlanName): Plan {
    return { name, ...this.#keys.plans[name] };
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const timer of this.#timers) timer[Symbol.dispose]();
    this.#saveUse(Infinity);
    this.store.close();
  }

  /** The hex digits are checked only here, because a header that was found by its hash has valid ones. */
  #lookUp(digest: string, authorization: string): KeyEntry | undefined {
    if (this.#keys.isUnknown(digest)) return undefined;
    if (keyEnvironment(authorization, bearer.length) === undefined) return undefined;
    this.#lookups++;
    try {
      return this.#keys.remember(digest, this.store.findByHash(digest), this.#clock.now());
    } catch (error) {
      this.#unreadable(error);
      return undefined;
    }
  }

  #entryOf(keyId: string): KeyEntry | undefined {
    try {
      const digest = this.store.hashOf(keyId);
      if (digest === undefined) return undefined;
      const known = this.#keys.get(digest);
      if (known !== undefined) return known;
      return this.#keys.remember(digest, this.store.findByHash(digest), this.#clock.now());
    } catch (error) {
      this.#unreadable(error);
      return undefined;
    }
  }

  #saveUse(maxRows: number): void {
    const entries = this.#keys.unsaved(maxRows);
    this.#useLeft = false;
    if (entries.length === 0) return;
    try {
      this.store.saveUse(entries.map(({ key, usedAt }) => ({ keyId: key.id, usedAt })));
      this.#keys.saved(entries);
      this.#useLeft = entries.length === maxRows;
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
