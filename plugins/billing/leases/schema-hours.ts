/** The sums of charges by hour in PostgreSQL. */
import { addToHours } from "./schema-tables.ts";

/**
 * `hours` has the sums of the charges that a replica has made in an hour (hours since 1970) with the same names. An empty
 * text is a missing name. `names` is a digest of the names, because some are too long for an index.
 */
const tables = `
DROP TABLE IF EXISTS sluice.spend, sluice.spend_read;
ALTER TABLE sluice.charges ADD COLUMN IF NOT EXISTS cached_tokens bigint NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS reasoning_tokens bigint NOT NULL DEFAULT 0;
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

/** The charges of the first release are added up. */
export const hours: string = `${tables}${addToHours("sluice.charges", "replica")};`;
