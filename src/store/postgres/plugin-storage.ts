/** The entries of `host.storage` in PostgreSQL, for all replicas. */
import type { Postgres } from "../../contract/store.ts";
import { maxEntries, type PluginEntries } from "../plugin-entries.ts";
import { openStorageDatabase, storageFile } from "../plugin-storage.ts";
import { blob, text, type Row } from "../row.ts";
import { explainPostgres } from "./failure.ts";
import type { EmbeddedDatabase } from "./move-store.ts";
import type { Migration } from "./migrations.ts";

/** The collation "C" orders keys by code point, as SQLite does. */
const table = `CREATE TABLE sluice.plugin_storage (plugin text, key text COLLATE "C", value bytea NOT NULL,
  PRIMARY KEY (plugin, key))`;

export const storageMigrations: readonly Migration[] = [{ name: "plugin storage", sql: table }];

/** The database in the data folder that the table replaces. */
export const storageDatabase: EmbeddedDatabase = {
  file: storageFile,
  open: openStorageDatabase,
  tables: [
    {
      name: "plugin_storage",
      columns: { plugin: "text", key: "text", value: "bytea" },
      key: ["plugin", "key"],
    },
  ],
};

const put = `INSERT INTO sluice.plugin_storage (plugin, key, value) SELECT $1, $2, $3::bytea
  WHERE EXISTS (SELECT 1 FROM sluice.plugin_storage WHERE plugin = $1 AND key = $2)
    OR (SELECT count(*) FROM sluice.plugin_storage WHERE plugin = $1) < $4::int
  ON CONFLICT (plugin, key) DO UPDATE SET value = excluded.value RETURNING 1`;

export function postgresEntries(database: Postgres): PluginEntries {
  const query = async (statement: string, values: readonly unknown[]): Promise<readonly Row[]> => {
    try {
      return await database.query("storage", statement, values);
    } catch (error) {
      throw explainPostgres(error, database.place);
    }
  };
  return {
    async get(plugin, key) {
      const statement = "SELECT value FROM sluice.plugin_storage WHERE plugin = $1 AND key = $2";
      const [row] = await query(statement, [plugin, key]);
      return row === undefined ? undefined : blob(row, "value");
    },
    async set(plugin, key, value) {
      return (await query(put, [plugin, key, value, maxEntries])).length === 1;
    },
    async delete(plugin, key) {
      const statement = "DELETE FROM sluice.plugin_storage WHERE plugin = $1 AND key = $2";
      await query(statement, [plugin, key]);
    },
    async list(plugin, prefix) {
      const statement = `SELECT key FROM sluice.plugin_storage
        WHERE plugin = $1 AND starts_with(key, $2) ORDER BY key`;
      return (await query(statement, [plugin, prefix])).map((row) => text(row, "key"));
    },
  };
}
