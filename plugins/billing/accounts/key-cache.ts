/** The keys that a running gateway has seen, by the SHA-256 of their text. No secret is stored or compared bytewise. */
import { isDeepStrictEqual } from "node:util";
import type { Anonymous } from "sluice-gateway/services";
import { BoundedMap } from "sluice-gateway/internal/toolkit";
import type { KeyUse, StoredKey } from "./account-store.ts";
import {
  makeKeyEntry,
  principalAt,
  type KeyEntry,
  type Plans,
  revoked,
  unauthorized,
} from "./principal.ts";

export interface KeyCacheLimits {
  /** Maximum number of keys, about 1 KiB each. */
  readonly keys: number;
  /** Maximum number of hashes that do not belong to a usable key, about 0.2 KiB each. */
  readonly unknown: number;
}

/** Maximum number of evicted keys whose last use is not written yet. Further ones are lost. */
const maxEvicted = 10_000;

export class KeyCache {
  plans: Plans;
  readonly #known: BoundedMap<string, KeyEntry>;
  /** The callers with unknown or revoked keys. */
  readonly #unknown: BoundedMap<string, Anonymous>;
  /** Evicted or revoked keys whose last use is not on disk yet. */
  #evicted: KeyEntry[] = [];

  constructor(plans: Plans, limits: KeyCacheLimits) {
    this.plans = plans;
    this.#known = new BoundedMap(limits.keys, (entry) => this.#keepUse(entry));
    this.#unknown = new BoundedMap(limits.unknown);
  }

  get(hash: string): KeyEntry | undefined {
    return this.#known.peek(hash);
  }

  unusable(hash: string): Anonymous | undefined {
    return this.#unknown.peek(hash);
  }

  remember(hash: string, stored: StoredKey | undefined, now: number): KeyEntry | undefined {
    if (stored === undefined || stored.key.revokedAt !== undefined) {
      const entry = this.#known.peek(hash);
      if (entry !== undefined) this.#keepUse(entry);
      this.#known.delete(hash);
      this.#unknown.set(hash, stored === undefined ? unauthorized : revoked(stored.key));
      return undefined;
    }
    const entry = makeKeyEntry(stored.key, stored.workspace, this.plans, now);
    const before = this.#known.peek(hash);
    if (before !== undefined) {
      entry.usedAt = before.usedAt;
      entry.savedUsedAt = before.savedUsedAt;
    }
    this.#unknown.delete(hash);
    this.#known.set(hash, entry);
    return entry;
  }

  /** If the key has not changed, its principal stays the same object. A key that is not cached is not added. */
  update(stored: StoredKey, now: number): void {
    this.#unknown.delete(stored.hash);
    const before = this.#known.peek(stored.hash);
    if (before === undefined) return;
    const isSame =
      isDeepStrictEqual(before.key, stored.key) &&
      isDeepStrictEqual(before.workspace, stored.workspace);
    if (!isSame) this.remember(stored.hash, stored, now);
  }

  forgetAll(): void {
    for (const entry of this.#known.values()) this.#keepUse(entry);
    this.#known.clear();
    this.#unknown.clear();
  }

  /** Creates the principal of `entry` again, because a plan starts or ends. */
  renew(entry: KeyEntry, now: number): void {
    Object.assign(entry, principalAt(entry.key, entry.workspace, this.plans, now));
  }

  /** If the plans are unchanged, principals stay the same objects. */
  setPlans(plans: Plans, now: number): void {
    if (isDeepStrictEqual(plans, this.plans)) return;
    this.plans = plans;
    for (const entry of this.#known.values()) this.renew(entry, now);
  }

  unsaved(max: number): KeyEntry[] {
    const entries = this.#evicted.slice(0, max);
    for (const entry of this.#known.values()) {
      if (entries.length >= max) break;
      if (entry.usedAt > entry.savedUsedAt) entries.push(entry);
    }
    return entries;
  }

  /** The keys may have been used again since `uses` were read. */
  saved(entries: readonly KeyEntry[], uses: readonly KeyUse[]): void {
    for (const [index, entry] of entries.entries()) entry.savedUsedAt = uses[index]?.usedAt ?? 0;
    this.#evicted = this.#evicted.filter((entry) => entry.usedAt > entry.savedUsedAt);
  }

  #keepUse(entry: KeyEntry): void {
    const isUnsaved = entry.usedAt > entry.savedUsedAt;
    if (isUnsaved && this.#evicted.length < maxEvicted) this.#evicted.push(entry);
  }
}
