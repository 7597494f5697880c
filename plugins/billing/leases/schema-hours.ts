/** The sums of charges by hour in PostgreSQL. */
import type { Migration } from "sluice-gateway/postgres";
import { addToHours, recordCharges } from "./schema-tables.ts";

/**
 * `hours` has the sums of the charges that a replica has made in an hour (hours since 1970) with the same names. An empty
 * text is a missing name. `names` is a digest of the names, because some are too long for an index.
 */
const tables = `
DROP FUNCTION IF EXISTS sluice.add_spend(bigint);
DROP TABLE IF EXISTS sluice.spend, sluice.spend_read;
ALTER TABLE sluice.charges ADD COLUMN cached_tokens bigint NOT NULL DEFAULT 0,
  ADD COLUMN reasoning_tokens bigint NOT NULL DEFAULT 0;
CREATE TABLE sluice.hours (
  hour bigint, replica bigint, names uuid,
  workspace_id text NOT NULL, key_id text NOT NULL, surface text NOT NULL, method text NOT NULL,
  model text NOT NULL, route text NOT NULL, tag text NOT NULL,
  calls bigint NOT NULL, included bigint NOT NULL, purchased bigint NOT NULL, overage bigint NOT NULL,
  input_tokens bigint NOT NULL, output_tokens bigint NOT NULL,
  cached_tokens bigint NOT NULL, reasoning_tokens bigint NOT NULL,
  PRIMARY KEY (hour, replica, names)
) WITH (fillfactor = 70);
`;

/** No charge can be added while the script runs, because it has locked their table. */
export const hourMigrations: readonly Migration[] = [
  {
    name: "hours",
    sql: [
      tables,
      recordCharges.replaceAll("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION"),
      `${addToHours("sluice.charges", "replica")};`,
    ].join("\n"),
  },
];
