/** Identifies callers from memory in a running gateway. Changes of the store are seen within one second. */
import { hash } from "node:crypto";
import type { Awaitable, Clock, Environment, Log, Session } from "sluice-gateway/plugin";
import type {
  Caller,
  Callers,
  KeyPrincipal,
  ModelOverride,
  Plan,
  PlanName,
  ReceivedClaims,
} from "sluice-gateway/services";
import { optionalNumber } from "sluice-gateway/internal/store";
import { BoundedMap, orElse } from "sluice-gateway/internal/toolkit";
import { AccountFeed } from "./account-feed.ts";
import type { AccountStore, Overrides } from "./account-store.ts";
import { ClaimedCallers } from "./claimed-callers.ts";
import { keyEnvironment } from "./key-text.ts";
import {
  type KeyEntry,
  type Plans,
  anonymousFor,
  bearer,
  expired,
  missing,
  unauthorized,
  wrongAddress,
  wrongEnvironment,
} from "./principal.ts";
import { KeyCache, type KeyCacheLimits } from "./key-cache.ts";

export interface AccountsOptions {
  readonly store: AccountStore;
  readonly session: Session;
  readonly environment: Environment;
  readonly plans: Plans;
  readonly clock: Clock;
  readonly log: Log;
  readonly remember?: KeyCacheLimits;
  readonly maxStaleMs?: number;
  readonly onApplied?: (change: number) => void;
  /** Called after each commit, before its result is returned. Never rejects. */
  readonly onCommit?: () => Promise<void>;
}

const tidyMs = 250;
const saveUseMs = 60_000;
/** Maximum number of times of last use per write, because other changes wait for it. The rest follows 250 ms later. */
const saveUseRows = 1_000;

/** Maximum number of keys whose hashes are cached. The hashes of other keys are computed per request (1 µs). */
const maxDigests = 4_096;

const maxIds = 32_768;

const noOverrides: ReadonlyMap<string, ModelOverride> = new Map();

const unavailable: Caller = { kind: "unavailable" };

export class AccountsService implements Callers {
  /** A change through this store is visible to `identify` and `overrides` as soon as its method has returned. */
  readonly store: AccountStore;
  readonly #keys: KeyCache;
  readonly #feed: AccountFeed;
  readonly #claimed: ClaimedCallers;
  /** Hashes by the id of their key, which never change. */
  readonly #hashes = new BoundedMap<string, string>(maxIds);
  /**
   * SHA-256 hashes of recently used keys, by the Authorization header that contained them. The map is emptied every
   * 250 ms, so that no text of a key stays in memory. The permissions of a hash are still looked up per request. The
   * timing of a Map reveals nothing to an attacker who guesses keys: texts are compared only if their seeded hashes
   * are equal.
   */
  readonly #digests = new Map<string, string>();
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #timers: readonly Disposable[];
  readonly #environment: Environment;
  /** The Authorization header of a key without the 32 hex digits. */
  readonly #head: string;
  #overrides: Overrides;
  /** True if the last write did not include all times of last use. */
  #useLeft = false;
  #saving: Promise<void> | undefined;
  #isClosed = false;

  /** Rejects with a StoreError if the store cannot be used. */
  static async open(options: AccountsOptions): Promise<AccountsService> {
    return new AccountsService(options, await options.store.overrides());
  }

  private constructor(options: AccountsOptions, overrides: Overrides) {
    this.store = options.store;
    this.#overrides = overrides;
    this.#clock = options.clock;
    this.#log = options.log;
    this.#environment = options.environment;
    this.#head = `${bearer}gateway_${options.environment}_`;
    const limits = options.remember ?? { keys: 32_768, unknown: 16_384 };
    this.#keys = new KeyCache(options.plans, limits);
    const { store, session, clock, log, maxStaleMs, onApplied, onCommit } = options;
    this.#feed = new AccountFeed({
      store,
      clock,
      log,
      maxStaleMs,
      apply: ({ keys, overrides: changed, hasLostChanges }) => {
        if (hasLostChanges) this.#keys.forgetAll();
        for (const stored of keys) this.#keys.update(stored, clock.now());
        if (changed !== undefined) this.#overrides = changed;
        onApplied?.(store.seenChange());
      },
    });
    this.#claimed = new ClaimedCallers({
      store,
      clock,
      environment: options.environment,
      plans: () => this.#keys.plans,
      feed: this.#feed,
    });
    onApplied?.(store.seenChange());
    store.onCommit(async () => {
      await Promise.all([this.refresh(), onCommit?.()]);
    });
    this.#timers = [
      session.watch({
        columns: { newest: "(SELECT max(id) FROM sluice.changes)" },
        seen: (row, startedAt) =>
          void this.#feed.refresh({ newest: optionalNumber(row, "newest") ?? 0, startedAt }),
        // The read shows whether the tables of the accounts cannot be read.
        failed: () => void this.refresh(),
      }),
      clock.every(tidyMs, () => {
        this.#digests.clear();
        this.#feed.refreshIfLate();
        if (this.#useLeft) void this.#saveUse(saveUseRows);
      }),
      clock.every(saveUseMs, () => void this.#saveUse(saveUseRows)),
    ];
  }

  identify(authorization: string | undefined, address = ""): Awaitable<Caller> {
    if (authorization === undefined) return missing;
    const head = this.#head;
    if (authorization.length !== head.length + 32 || !authorization.startsWith(head)) {
      return anonymousFor(authorization);
    }
    const known = this.#digests.get(authorization);
    const digest = known ?? hash("sha256", authorization.slice(bearer.length));
    const entry = this.#keys.get(digest);
    if (entry === undefined) return this.#lookUp(digest, authorization, address);
    if (known === undefined && this.#digests.size < maxDigests) {
      this.#digests.set(authorization, digest);
    }
    return this.#admit(entry, address);
  }

  identifyKey(keyId: string, address: string): Awaitable<Caller> {
    const known = this.#hashes.get(keyId);
    const entry = known === undefined ? undefined : this.#keys.get(known);
    if (entry !== undefined) return this.#admitById(entry, address);
    return this.#orUnavailable(async () => {
      const digest = known ?? (await this.store.hashOf(keyId));
      if (digest === undefined) return unauthorized;
      this.#hashes.set(keyId, digest);
      const found = this.#keys.get(digest) ?? (await this.#find(digest));
      if (found === undefined) return this.#keys.unusable(digest) ?? unauthorized;
      return this.#admitById(found, address);
    });
  }

  identifyAgain(principal: KeyPrincipal, address: string): Awaitable<Caller> {
    const claims = this.#claimed.claimsOf(principal);
    if (claims !== undefined) return this.identifyClaims(claims);
    return this.identifyKey(principal.key.id, address);
  }

  identifyClaims(claims: ReceivedClaims): Awaitable<Caller> {
    return this.#orUnavailable(() => this.#claimed.identify(claims));
  }

  /** An id does not contain the environment, unlike the text of a key. */
  #admitById(entry: KeyEntry, address: string): Caller {
    if (entry.key.environment !== this.#environment) return wrongEnvironment;
    return this.#admit(entry, address);
  }

  #admit(entry: KeyEntry, address: string): Caller {
    if (this.#feed.isStale()) return unavailable;
    const now = this.#clock.now();
    if (now >= entry.expiresAt) return expired(entry.key);
    if (entry.allows !== undefined && !entry.allows(address)) return wrongAddress(entry.key);
    if (now >= entry.planUntil || now < entry.planFrom) this.#keys.renew(entry, now);
    entry.usedAt = now;
    return entry.principal;
  }

  isReady(): boolean {
    return this.#feed.isReady();
  }

  refresh(): Promise<void> {
    return this.#feed.refresh();
  }

  /** The map stays the same object until an override changes. */
  overrides(network: string): ReadonlyMap<string, ModelOverride> {
    return this.#overrides.get(network) ?? noOverrides;
  }

  setPlans(plans: Plans): void {
    this.#keys.setPlans(plans, this.#clock.now());
  }

  plan(name: PlanName): Plan {
    return { name, ...this.#keys.plans[name] };
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const timer of this.#timers) timer[Symbol.dispose]();
    await this.#saving;
    await this.#saveUse(Infinity);
  }

  /** The hex digits are checked only here, because a header that was found by its hash has valid ones. */
  #lookUp(digest: string, authorization: string, address: string): Awaitable<Caller> {
    if (keyEnvironment(authorization, bearer.length) === undefined) {
      return anonymousFor(authorization);
    }
    if (this.#feed.isStale()) return unavailable;
    const unusable = this.#keys.unusable(digest);
    if (unusable !== undefined) return unusable;
    return this.#orUnavailable(async () => {
      const entry = await this.#find(digest);
      return entry === undefined
        ? (this.#keys.unusable(digest) ?? unauthorized)
        : this.#admit(entry, address);
    });
  }

  async #find(digest: string): Promise<KeyEntry | undefined> {
    for (;;) {
      const { count } = this.#feed;
      const stored = await this.store.findByHash(digest);
      // A change that arrived in the meantime was not applied to this key, because the key was not in memory.
      if (count === this.#feed.count) return this.#keys.remember(digest, stored, this.#clock.now());
    }
  }

  #orUnavailable(work: () => Awaitable<Caller>): Awaitable<Caller> {
    return orElse(work, (error) => {
      this.#feed.unreadable(error);
      return unavailable;
    });
  }

  #saveUse(maxRows: number): Promise<void> {
    this.#saving ??= this.#writeUse(maxRows).finally(() => {
      this.#saving = undefined;
    });
    return this.#saving;
  }

  async #writeUse(maxRows: number): Promise<void> {
    const entries = this.#keys.unsaved(maxRows);
    this.#useLeft = false;
    if (entries.length === 0) return;
    const uses = entries.map(({ key, usedAt }) => ({ keyId: key.id, usedAt }));
    try {
      await this.store.saveUse(uses);
      this.#keys.saved(entries, uses);
      this.#useLeft = entries.length === maxRows;
    } catch (error) {
      const message = "cannot save the time of the last use of keys; trying again";
      this.#log.warn({ err: error }, message);
    }
  }
}
