/** The entries of `host.storage` in the data folder. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { maxEntries, type PluginEntries } from "./plugin-entries.ts";
import { blob, text } from "./row.ts";
import { openDatabase } from "./sqlite.ts";
import { explain } from "./store-error.ts";

/** The table has row ids, so that its index has keys without values, for `list` and for the count. */
const migrations = [
  `CREATE TABLE plugin_storage (plugin TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (plugin, key)) STRICT`,
];

export const storageFile = "storage.db";
/** The schema version of storage.db that this release writes. */
export const storageVersion = migrations.length;

export interface EmbeddedEntries extends PluginEntries {
  get(plugin: string, key: string): Uint8Array | undefined;
  set(plugin: string, key: string, value: Uint8Array): boolean;
  delete(plugin: string, key: string): void;
  list(plugin: string, prefix: string): readonly string[];
  close(): void;
}

/** Throws StoreError if the data folder cannot be used. */
export function openStorageDatabase(dataDir: string): DatabaseSync {
  return openDatabase(join(dataDir, storageFile), migrations);
}

/**
 * Opens the entries. Throws StoreError if there are entries that cannot be used. Most gateways have none, so the file is
 * created when the first plugin uses its storage.
 */
export function openPluginEntries(dataDir: string): EmbeddedEntries {
  let table = existsSync(join(dataDir, storageFile)) ? openTable(dataDir) : undefined;
  let isClosed = false;
  const explained = <T>(work: (opened: Table) => T): T => {
    try {
      if (isClosed) throw new Error("the gateway has stopped");
      table ??= openTable(dataDir);
      return work(table);
    } catch (error) {
      throw explain(error, storageFile);
    }
  };
  return {
    get: (plugin, key) =>
      explained(({ find }) => {
        const row = find.get(plugin, key);
        return row === undefined ? undefined : blob(row, "value");
      }),
    set: (plugin, key, value) =>
      explained(({ put }) => put.run(plugin, key, value, maxEntries).changes === 1),
    delete: (plugin, key) => void explained(({ remove }) => remove.run(plugin, key)),
    list: (plugin, prefix) =>
      explained(({ keys }) => keys.all(plugin, prefix).map((row) => text(row, "key"))),
    close() {
      isClosed = true;
      table?.db.close();
    },
  };
}

type Table = ReturnType<typeof openTable>;

function openTable(dataDir: string) {
  const db = openStorageDatabase(dataDir);
  return {
    db,
    find: db.prepare("SELECT value FROM plugin_storage WHERE plugin = ? AND key = ?"),
    put: db.prepare(`INSERT INTO plugin_storage (plugin, key, value) SELECT ?1, ?2, ?3
      WHERE EXISTS (SELECT 1 FROM plugin_storage WHERE plugin = ?1 AND key = ?2)
        OR (SELECT count(*) FROM plugin_storage WHERE plugin = ?1) < ?4
      ON CONFLICT (plugin, key) DO UPDATE SET value = excluded.value`),
    remove: db.prepare("DELETE FROM plugin_storage WHERE plugin = ? AND key = ?"),
    keys: db.prepare(`SELECT key FROM plugin_storage
      WHERE plugin = ?1 AND substr(key, 1, length(?2)) = ?2 ORDER BY key`),
  };
}
