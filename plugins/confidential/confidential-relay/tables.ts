import type { Tables } from "sluice-gateway/internal/store";
import { receiptsKeptMs, sessionClaim } from "./stream-store.ts";

/**
 * Times are in milliseconds since 1970, amounts in milli-CU. `name` of `lost_answers`: see `SqlRetryCredits`; `used`: the
 * part that the last request used. Ids of sessions are claims: see `sessionClaim`.
 */
export const streamTables: Tables = {
  scripts: [
    {
      name: "streams",
      sql: `
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
`,
    },
    {
      name: "used parts of lost answers",
      sql: "ALTER TABLE sluice.lost_answers ADD COLUMN used bigint NOT NULL DEFAULT 0",
    },
    {
      name: "ids of sessions are claims",
      sql: `INSERT INTO sluice.claims (id, until) SELECT ${sessionClaim("name")}, until FROM sluice.stream_names;
DROP TABLE sluice.stream_names`,
      excludesOlder: true,
    },
  ],
  // In the earlier file, the receipts themselves show which ids were used.
  takeovers: [
    {
      file: "receipts.db",
      sql: `INSERT INTO receipts (session, rid, at, receipt) SELECT session, rid, at, receipt FROM old.receipts
        WHERE true ON CONFLICT DO NOTHING;
        INSERT INTO claims (id, until) SELECT ${sessionClaim("session")}, max(at) + ${receiptsKeptMs} FROM old.receipts
        WHERE true GROUP BY session ON CONFLICT DO NOTHING`,
    },
  ],
  moved: [
    {
      name: "receipts",
      columns: "session, rid, at, receipt",
      json: "receipt",
      key: ["session", "rid"],
    },
    {
      name: "lost_answers",
      columns: "key_id, name, milli, until, used",
      key: ["key_id", "name"],
    },
  ],
};
