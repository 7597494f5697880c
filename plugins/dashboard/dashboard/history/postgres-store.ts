/** Keeps the health over time of all gateways in PostgreSQL. */
import { randomUUID } from "node:crypto";
import type { Postgres } from "sluice-gateway/plugin";
import type { Migration } from "sluice-gateway/postgres";
import { number, text } from "sluice-gateway/store";
import { keepMs, type HistoryStore } from "./store.ts";

/** `gateway` is the id of one start of a gateway. */
const table = `
CREATE TABLE sluice.history (
  span text, kind text, at bigint, name text, gateway text, sum text NOT NULL,
  PRIMARY KEY (span, kind, at, name, gateway)
);
`;

export const historyMigrations: readonly Migration[] = [{ name: "health over time", sql: table }];

const put = `INSERT INTO sluice.history (span, kind, at, name, gateway, sum)
  SELECT span, kind, at, name, $2, sum FROM json_to_recordset($1::json)
    AS r (span text, kind text, at bigint, name text, sum text)
  ON CONFLICT (span, kind, at, name, gateway) DO UPDATE SET sum = excluded.sum`;

/** The methods reject with DatabaseFailure. */
export function openHistoryTable(database: Postgres): HistoryStore {
  const gateway = randomUUID();
  return {
    async write(rows) {
      await database.query("history", put, [Buffer.from(JSON.stringify(rows)), gateway]);
    },
    async prune(now) {
      const statement = "DELETE FROM sluice.history WHERE span = $1 AND at < $2";
      for (const [span, ms] of Object.entries(keepMs)) {
        await database.query("history", statement, [span, now - ms]);
      }
    },
    async read({ span, kind, name = null, from, to }) {
      const statement = `SELECT at, name, sum FROM sluice.history
        WHERE span = $1 AND kind = $2 AND at >= $3 AND at < $4 AND ($5::text IS NULL OR name = $5)`;
      const rows = await database.query("history", statement, [span, kind, from, to, name]);
      return rows.map((row) => ({
        span,
        kind,
        at: number(row, "at"),
        name: text(row, "name"),
        sum: text(row, "sum"),
      }));
    },
    // The host closes the database.
    close() {},
  };
}
