/** `host.storage`. Implemented in src/store/plugin-storage.ts. */

/**
 * Small values that a plugin keeps across restarts, under keys of its choice. All instances of the plugin share them,
 * and with `store.postgres` all gateways on the database do. Other plugins have separate entries. A plugin is known by
 * its name, so one that is renamed starts without entries.
 *
 * Every method rejects with a StorageRefusal if an argument breaks a limit, and with an Error if the store cannot be
 * used; a change may have been stored nevertheless.
 */
export interface PluginStorage {
  /** Resolves to the value of a key, undefined if there is none. */
  get(key: string): Promise<string | undefined>;
  /**
   * Stores a value, which replaces the one that the key has. It is durable when this has resolved. If several gateways
   * add entries at the same time, they can exceed the maximum number of entries by a few.
   *
   * `key`: 1 to 512 bytes in UTF-8, without the character U+0000. `value`: at most 65,536 bytes in UTF-8.
   */
  set(key: string, value: string): Promise<void>;
  /** Removes a key, if it exists. It is durable when this has resolved. */
  delete(key: string): Promise<void>;
  /** Resolves to the keys that start with `prefix` (default: all keys), ordered by code point. */
  list(prefix?: string): Promise<readonly string[]>;
}

/** An argument that breaks a limit of the storage. */
export interface StorageRefusal extends Error {
  /**
   * `SLUICE_STORAGE_KEY`: the key or prefix is invalid. `SLUICE_STORAGE_VALUE`: the value is invalid or too large.
   * `SLUICE_STORAGE_FULL`: the plugin has 10,000 entries, and the key is new.
   */
  readonly code: "SLUICE_STORAGE_KEY" | "SLUICE_STORAGE_VALUE" | "SLUICE_STORAGE_FULL";
}
