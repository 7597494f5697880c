/**
 * The keys a running gateway has met, by the SHA-256 of their text: no secret is kept, none is compared byte by byte.
 */
import { isDeepStrictEqual } from "node:util";
import type { StoredKey } from "./accounts-reader.ts";
import { makeKeyEntry, principalAt, type KeyEntry, type Plans } from "./principal.ts";

export interface KeyCacheLimits {
  /** Keys, about 1 KiB each. */
  readonly keys: number;
  /** Hashes that belong to no usable key, about 0.2 KiB each. */
  readonly unknown: number;
}

/** Last uses of keys no longer in memory, until they are written; beyond it they are lost. */
const maxEvicted = 10_000;

/** Bounded both ways: the oldest is forgotten first and can be read from the database again. */
export class KeyCache {
  readonly #limits: KeyCacheLimits;
  #plans: Plans;
  readonly #known = new Map<string, KeyEntry>();
  readonly #unknown = new Set<string>();
  /** Forgotten or revoked with a use that is not on disk yet. */
  #evicted: KeyEntry[] = [];

  constructor(plans: Plans, limits: KeyCacheLimits) {
    this.#plans = plans;
    this.#limits = limits;
  }

  get size(): { readonly keys: number; readonly unknown: number } {
    return { keys: this.#known.size, unknown: this.#unknown.size };
  }

  get(hash: string): KeyEntry | undefined {
    return this.#known.get(hash);
  }

  /** True when the hash is known to belong to no key that may be used. */
  isUnknown(hash: string): boolean {
    return this.#unknown.has(hash);
  }

  /** Keeps what the database said of a hash. */
  remember(hash: string, stored: StoredKey | undefined, now: number): KeyEntry | undefined {
    if (stored === undefined || stored.key.revokedAt !== undefined) {
      this.#forget(hash);
      if (this.#unknown.size >= this.#limits.unknown) this.#unknown.delete(oldest(this.#unknown));
      this.#unknown.add(hash);
      return undefined;
    }
    const entry = makeKeyEntry(stored.key, stored.workspace, this.#plans, now);
    const before = this.#known.get(hash);
    if (before !== undefined) {
      entry.usedAt = before.usedAt;
      entry.savedUsedAt = before.savedUsedAt;
    } else if (this.#known.size >= this.#limits.keys) {
      this.#forget(oldest(this.#known));
    }
    this.#unknown.delete(hash);
    this.#known.set(hash, entry);
    return entry;
  }

  /**
   * Takes over a key that may have changed; if it has not, its principal stays the same object. One that nobody has
   * asked for yet stays in the database.
   */
  update(stored: StoredKey, now: number): void {
    this.#unknown.delete(stored.hash);
    const before = this.#known.get(stored.hash);
    if (before === undefined) return;
    const isSame =
      isDeepStrictEqual(before.key, stored.key) &&
      isDeepStrictEqual(before.workspace, stored.workspace);
    if (!isSame) this.remember(stored.hash, stored, now);
  }

  /** The principal of `entry` at `now`, made anew: its plan begins or ends. */
  renew(entry: KeyEntry, now: number): void {
    Object.assign(entry, principalAt(entry.key, entry.workspace, this.#plans, now));
  }

  /** Plans that are as before change nothing: principals stay the same objects. */
  setPlans(plans: Plans, now: number): void {
    if (isDeepStrictEqual(plans, this.#plans)) return;
    this.#plans = plans;
    for (const entry of this.#known.values()) this.renew(entry, now);
  }

  /** Up to `most` keys whose last use is not saved. */
  unsaved(most: number): KeyEntry[] {
    const entries = this.#evicted.slice(0, most);
    for (const entry of this.#known.values()) {
      if (entries.length >= most) break;
      if (entry.usedAt > entry.savedUsedAt) entries.push(entry);
    }
    return entries;
  }

  saved(entries: readonly KeyEntry[]): void {
    for (const entry of entries) entry.savedUsedAt = entry.usedAt;
    this.#evicted = this.#evicted.filter((entry) => entry.usedAt > entry.savedUsedAt);
  }

  #forget(hash: string): void {
    const entry = this.#known.get(hash);
    this.#known.delete(hash);
    const isWorthSaving = entry !== undefined && entry.usedAt > entry.savedUsedAt;
    if (isWorthSaving && this.#evicted.length < maxEvicted) this.#evicted.push(entry);
  }
}

function oldest(remembered: Map<string, unknown> | Set<string>): string {
  return remembered.keys().next().value ?? "";
}
