import type { Sql } from "../contract/sql.ts";
import { maxEntries, type PluginEntries } from "./plugin-entries.ts";
import { blob, text } from "./row.ts";
import type { Tables } from "./sql/tables.ts";

/** The collation "C" orders keys by code point. Values are bytes, because a text in PostgreSQL cannot have U+0000. */
export const storageTables: Tables = {
  scripts: [
    {
      name: "plugin storage",
      sql: `CREATE TABLE sluice.plugin_storage (plugin text, key text COLLATE "C", value bytea NOT NULL,
        PRIMARY KEY (plugin, key))`,
    },
  ],
  takeovers: [
    {
      file: "storage.db",
      sql: `INSERT INTO plugin_storage (plugin, key, value) SELECT plugin, key, value FROM old.plugin_storage
        WHERE true ON CONFLICT DO NOTHING`,
    },
  ],
  moved: [
    {
      name: "plugin_storage",
      columns: "plugin, key, value",
      key: ["plugin", "key"],
    },
  ],
};

const put = `INSERT INTO sluice.plugin_storage (plugin, key, value) SELECT $1, $2, CAST($3 AS bytea)
  WHERE EXISTS (SELECT 1 FROM sluice.plugin_storage WHERE plugin = $1 AND key = $2)
    OR (SELECT count(*) FROM sluice.plugin_storage WHERE plugin = $1) < CAST($4 AS bigint)
  ON CONFLICT (plugin, key) DO UPDATE SET value = excluded.value RETURNING 1`;

export function createPluginEntries(sql: Sql): PluginEntries {
  return {
    async get(plugin, key) {
      const statement = "SELECT value FROM sluice.plugin_storage WHERE plugin = $1 AND key = $2";
      const [row] = await sql.query(statement, [plugin, key]);
      return row && blob(row, "value");
    },
    async set(plugin, key, value) {
      return (await sql.query(put, [plugin, key, value, maxEntries])).length === 1;
    },
    async delete(plugin, key) {
      const statement = "DELETE FROM sluice.plugin_storage WHERE plugin = $1 AND key = $2";
      await sql.query(statement, [plugin, key]);
    },
    async list(plugin, prefix) {
      const statement = `SELECT key FROM sluice.plugin_storage
        WHERE plugin = $1 AND substr(key, 1, length(CAST($2 AS text))) = $2 ORDER BY key`;
      return (await sql.query(statement, [plugin, prefix])).map((row) => text(row, "key"));
    },
  };
}
