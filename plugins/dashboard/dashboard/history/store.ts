import { randomUUID } from "node:crypto";
import type { Sql } from "sluice-gateway/plugin";
import { number, text, valueRows, type Tables } from "sluice-gateway/internal/store";

export type Span = "minute" | "hour";

export const spanMs: Readonly<Record<Span, number>> = { minute: 60_000, hour: 3_600_000 };
export const keepMs: Readonly<Record<Span, number>> = {
  minute: 25 * 3_600_000,
  hour: 31 * 24 * 3_600_000,
};

/** The sum of one gateway in one minute or hour. `at`: its start in milliseconds since 1970. */
export interface HistoryRow {
  readonly span: Span;
  readonly at: number;
  readonly kind: string;
  readonly name: string;
  /** An `ExchangeSum` as JSON. */
  readonly sum: string;
}

export interface HistoryQuery {
  readonly span: Span;
  readonly kind: string;
  /** All names if undefined. */
  readonly name?: string | undefined;
  /** Milliseconds since 1970. `from` is inclusive, and `to` is exclusive. */
  readonly from: number;
  readonly to: number;
}

/** Every method rejects with a StoreError if the store cannot be used. */
export interface HistoryStore {
  /** Stores rows of this start of this gateway. A row replaces the one with the same span, time, kind and name. */
  write(rows: readonly HistoryRow[]): Promise<void>;
  prune(now: number): Promise<void>;
  /** Later rows replace none of those that were stored, but are added to them. */
  startAgain(): void;
  /** Returns the rows of all gateways, in no particular order. */
  read(query: HistoryQuery): Promise<readonly HistoryRow[]>;
}

/** `gateway` is the id of one start of a gateway, so a start never changes the rows of an earlier one. */
export const historyTables: Tables = {
  scripts: [
    {
      name: "health over time",
      sql: `
CREATE TABLE sluice.history (
  span text, kind text, at bigint, name text, gateway text, sum text NOT NULL,
  PRIMARY KEY (span, kind, at, name, gateway)
);
`,
    },
  ],
  takeovers: [
    {
      file: "history.db",
      sql: `INSERT INTO history (span, kind, at, name, gateway, sum)
        SELECT span, kind, at, name, gateway, sum FROM old.history WHERE true ON CONFLICT DO NOTHING`,
    },
  ],
  moved: [],
};

const maxRows = 500;

export function createHistoryStore(sql: Sql): HistoryStore {
  let gateway = randomUUID();
  return {
    startAgain: () => {
      gateway = randomUUID();
    },
    async write(rows) {
      for (let start = 0; start < rows.length; start += maxRows) {
        const some = rows.slice(start, start + maxRows);
        await sql.query(
          `INSERT INTO sluice.history (span, kind, at, name, gateway, sum) VALUES ${valueRows(some.length, 6)}
           ON CONFLICT (span, kind, at, name, gateway) DO UPDATE SET sum = excluded.sum`,
          some.flatMap(({ span, kind, at, name, sum }) => [span, kind, at, name, gateway, sum]),
        );
      }
    },
    async prune(now) {
      const statement = `DELETE FROM sluice.history
        WHERE span = $1 AND kind IN ('all', 'route', 'upstream', 'model') AND at < $2`;
      for (const [span, ms] of Object.entries(keepMs)) await sql.query(statement, [span, now - ms]);
    },
    async read({ span, kind, name = null, from, to }) {
      const statement = `SELECT at, name, sum FROM sluice.history
        WHERE span = $1 AND kind = $2 AND at >= $3 AND at < $4
          AND (CAST($5 AS text) IS NULL OR name = $5)`;
      const rows = await sql.query(statement, [span, kind, from, to, name]);
      return rows.map((row) => ({
        span,
        kind,
        at: number(row, "at"),
        name: text(row, "name"),
        sum: text(row, "sum"),
      }));
    },
  };
}
