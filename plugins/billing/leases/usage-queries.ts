import type { Postgres } from "sluice-gateway/plugin";
import { explainPostgres } from "sluice-gateway/internal/postgres";
import type { Metering } from "sluice-gateway/services";
import { number, text, type Row } from "sluice-gateway/internal/store";
import type { ReadMonths } from "../metering/usage/report.ts";
import { keyWindowsOf, windowOf } from "../metering/windows.ts";
import { unlimitedMilliCu, type WorkspaceLimits } from "./ledger.ts";
import { heldSql, isCountedSql } from "./ledger-statements.ts";
import {
  currentMonth,
  drawnIn,
  purchasedLeftIn,
  type CurrentMonth,
  type Drawn,
  type FixedMonth,
} from "./months.ts";

/** Credit of a scope that replicas hold and do not show as slack, about the sum of the open reservations. */
const openSql = `(SELECT coalesce(sum(greatest(${heldSql("l")} - slack, 0)), 0)::bigint
  FROM sluice.leases l WHERE scope = $1)`;

/** The months of all workspaces that have charges. Parameter: a workspace, or null. */
const workspaceMonths = `
  SELECT scope, at.now, s.limits, coalesce(s.fixed, '[]') AS fixed,
    jsonb_agg(jsonb_build_array('period', step, milli_cu)) AS used
  FROM (SELECT sluice.now_ms() AS now OFFSET 0) AS at, (
    SELECT scope, step, sum(milli_cu) AS milli_cu FROM sluice.used
    WHERE kind = 'period' AND ($1::text IS NULL OR scope = $1) GROUP BY scope, step) AS each
  LEFT JOIN sluice.scopes s ON s.id = scope
  GROUP BY scope, at.now, s.limits, s.fixed`;

/** An entry of `used` is its kind, its step and its milli-CU. */
const scopeUsage = `
  SELECT at.now, ${openSql} AS open, s.limits, coalesce(s.fixed, '[]') AS fixed, (
    SELECT coalesce(jsonb_agg(jsonb_build_array(kind, step, milli_cu) ORDER BY step), '[]') FROM (
      SELECT kind, step, sum(milli_cu) AS milli_cu FROM sluice.used
      WHERE scope = $1 AND ${isCountedSql("at.now")} GROUP BY kind, step) AS each) AS used
  FROM (SELECT sluice.now_ms() AS now OFFSET 0) AS at LEFT JOIN sluice.scopes s ON s.id = $1`;

type Steps = readonly (readonly ["day" | "month" | "period", number, number])[];

/** All methods reject with StoreError. */
export function createUsageQueries(
  database: Postgres,
): Pick<Metering, "keyWindows" | "workspaceUsage" | "purchasedLeft"> {
  const query = async (scope: string): Promise<Row> => {
    try {
      const [row = {}] = await database.query("usage", scopeUsage, [scope]);
      return row;
    } catch (error) {
      throw explainPostgres(error, database.place);
    }
  };
  return {
    async keyWindows(key) {
      const row = await query(key.id);
      // Only the statement above writes the column.
      const stepsOf = (window: string): (readonly [number, number])[] =>
        (row["used"] as Steps).flatMap(([kind, ...step]) => (kind === window ? [step] : []));
      const windows = {
        day: windowOf("day", stepsOf("day")),
        month: windowOf("month", stepsOf("month")),
      };
      return keyWindowsOf(key, windows, number(row, "open"), number(row, "now"));
    },
    async workspaceUsage(workspaceId) {
      const row = await query(workspaceId);
      const month = monthOf(row);
      return { periodStart: month.start, ...drawnIn(month), openMilliCu: number(row, "open") };
    },
    async purchasedLeft({ id, purchasedTotalMilliCu }) {
      return purchasedLeftIn(monthOf(await query(id)), purchasedTotalMilliCu);
    },
  };
}

/** Rejects with DatabaseFailure. */
export function createMonthReader(database: Postgres): ReadMonths {
  return async (workspaceId) => {
    const rows = await database.query("usage", workspaceMonths, [workspaceId ?? null]);
    return new Map(
      rows.map((row) => {
        const month = monthOf(row);
        const months = new Map<number, Drawn>(month.fixed.map((each) => [each.start, each]));
        months.set(month.start, drawnIn(month));
        return [text(row, "scope"), months];
      }),
    );
  };
}

/** Before the first request of a workspace, its limits are unknown, and everything counts as included. */
const unknownLimits: WorkspaceLimits = {
  kind: "workspace",
  includedMilliCu: unlimitedMilliCu,
  purchasedMilliCu: 0,
  overageMilliCu: 0,
};

function monthOf(row: Row): CurrentMonth {
  const sums = new Map<number, number>();
  // Only the statement above writes this column, and only the ledger writes the two others.
  for (const [kind, step, milliCu] of row["used"] as Steps) {
    if (kind === "period") sums.set(step, milliCu);
  }
  const limits = (row["limits"] as WorkspaceLimits | null) ?? unknownLimits;
  const fixed = row["fixed"] as readonly FixedMonth[];
  return currentMonth(number(row, "now"), sums, fixed, limits);
}
