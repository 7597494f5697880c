/** The tables of the encrypted stream in PostgreSQL, and the rows that `sluice store migrate` copies to them. */
import type { EmbeddedDatabase, Migration } from "sluice-gateway/postgres";
import { openReceiptsDatabase } from "../receipts-schema.ts";
import { receiptsKeptMs } from "../stream-store.ts";

/** Times are in milliseconds since 1970, amounts in milli-CU. `name` of a lost answer: see `PostgresRetryCredits`. */
const tables = `
CREATE TABLE sluice.receipts (
  session text NOT NULL,
  rid bigint NOT NULL,
  at bigint NOT NULL,
  receipt json NOT NULL,
  PRIMARY KEY (session, rid)
);
CREATE INDEX receipts_at ON sluice.receipts (at);
CREATE TABLE sluice.stream_names (name text PRIMARY KEY, until bigint NOT NULL);
CREATE INDEX stream_names_until ON sluice.stream_names (until);
CREATE TABLE sluice.lost_answers (
  key_id text NOT NULL,
  name text NOT NULL,
  milli bigint NOT NULL CHECK (milli >= 0),
  until bigint NOT NULL,
  PRIMARY KEY (key_id, name)
);
CREATE INDEX lost_answers_until ON sluice.lost_answers (until);
`;

export const streamMigrations: readonly Migration[] = [{ name: "streams", sql: tables }];

/** In the data folder, the receipts themselves show which ids were used. */
export const receiptsDatabase: EmbeddedDatabase = {
  file: "receipts.db",
  open: openReceiptsDatabase,
  tables: [
    {
      name: "receipts",
      columns: { session: "text", rid: "bigint", at: "bigint", receipt: "json" },
      key: ["session", "rid"],
    },
    {
      name: "stream_names",
      from: `(SELECT session AS name, max(at) + ${receiptsKeptMs} AS until FROM receipts GROUP BY session)`,
      columns: { name: "text", until: "bigint" },
      key: ["name"],
    },
  ],
};
