import type { PluginStorage, StorageRefusal } from "../contract/storage.ts";

/** The entries of all plugins. Every method rejects with a StoreError. Implemented in plugin-storage.ts. */
export interface PluginEntries {
  get(plugin: string, key: string): Promise<Uint8Array | undefined>;
  /** Resolves to false, and stores nothing, if the key is new and the plugin has `maxEntries`. */
  set(plugin: string, key: string, value: Uint8Array): Promise<boolean>;
  delete(plugin: string, key: string): Promise<void>;
  list(plugin: string, prefix: string): Promise<readonly string[]>;
}

export const maxEntries = 10_000;
const maxKeyBytes = 512;
const maxValueBytes = 65_536;

/** For a dry run, which must not change the store. */
export const noEntries: PluginEntries = {
  get: () => Promise.resolve(undefined),
  set: () => Promise.resolve(true),
  delete: () => Promise.resolve(),
  list: () => Promise.resolve([]),
};

export function storageOf(plugin: string, entries: PluginEntries): PluginStorage {
  return {
    async get(key) {
      const value = await entries.get(plugin, checkKey(key));
      return value === undefined ? undefined : Buffer.from(value).toString();
    },
    async set(key, value) {
      if (await entries.set(plugin, checkKey(key), checkValue(value))) return;
      const message = `plugin "${plugin}" already has ${maxEntries} entries in its storage; delete some of them first`;
      throw new Refusal("SLUICE_STORAGE_FULL", message);
    },
    async delete(key) {
      await entries.delete(plugin, checkKey(key));
    },
    async list(prefix = "") {
      return entries.list(plugin, prefix === "" ? "" : checkKey(prefix));
    },
  };
}

class Refusal extends Error implements StorageRefusal {
  readonly code: StorageRefusal["code"];

  constructor(code: StorageRefusal["code"], message: string) {
    super(message);
    this.name = "StorageRefusal";
    this.code = code;
  }
}

// Plugins may be written in JavaScript, so the type of an argument is not certain.

function checkKey(key: unknown): string {
  const bytes = typeof key === "string" ? Buffer.byteLength(key) : 0;
  const isWhole = typeof key === "string" && key.isWellFormed() && !key.includes("\0");
  if (isWhole && bytes >= 1 && bytes <= maxKeyBytes) return key;
  const found = typeof key === "string" ? JSON.stringify(key.slice(0, 80)) : `a ${typeof key}`;
  throw new Refusal(
    "SLUICE_STORAGE_KEY",
    `the storage got the key ${found} (${bytes} bytes); expected a text of 1 to ${maxKeyBytes} bytes in UTF-8 without U+0000`,
  );
}

function checkValue(value: unknown): Buffer {
  if (typeof value === "string" && value.isWellFormed()) {
    const bytes = Buffer.from(value);
    if (bytes.length <= maxValueBytes) return bytes;
    throw new Refusal(
      "SLUICE_STORAGE_VALUE",
      `the storage got a value of ${bytes.length} bytes; expected at most ${maxValueBytes}`,
    );
  }
  const found =
    typeof value === "string" ? "a text with half a surrogate pair" : `a ${typeof value}`;
  throw new Refusal(
    "SLUICE_STORAGE_VALUE",
    `the storage got ${found}; expected a well-formed text`,
  );
}
