/** Reads from PostgreSQL how much of the shared credit is used. */
import type { Postgres } from "sluice-gateway/plugin";
import { explainPostgres } from "sluice-gateway/postgres";
import type { ApiKey, KeyWindows, Workspace, WorkspaceUsage } from "sluice-gateway/services";
import { number, type Row } from "sluice-gateway/store";
import { periodOf } from "../metering/periods.ts";
import { dayWindow, monthWindow, RollingWindow, windowState } from "../metering/windows.ts";
import type { Amounts } from "./ledger.ts";
import { heldSql } from "./ledger-statements.ts";

/** All methods reject with StoreError. */
export interface UsageQueries {
  keyWindows(key: Pick<ApiKey, "id" | "cuLimit24hMilli" | "cuLimit30dMilli">): Promise<KeyWindows>;
  workspaceUsage(workspaceId: string): Promise<WorkspaceUsage>;
  purchasedLeft(workspace: Workspace): Promise<number>;
}

/** What replicas hold of a scope and do not show as slack, which is about the sum of the open reservations. */
const openSql = `(SELECT coalesce(sum(greatest(${heldSql("l")} - (SELECT sum(s) FROM unnest(slack) AS s), 0)), 0)::bigint
  FROM sluice.leases l WHERE scope = $1)`;

/** A step is the kind of its window, its number and its milli-CU. */
const keyUsage = `
  SELECT at.now, ${openSql} AS open, (
    SELECT coalesce(jsonb_agg(jsonb_build_array(kind, step, milli_cu) ORDER BY step), '[]') FROM (
      SELECT kind, step, sum(milli_cu) AS milli_cu FROM sluice.key_steps
      WHERE key_id = $1 AND step >= CASE kind
        WHEN 'day' THEN at.now / ${dayWindow.stepMs} - ${dayWindow.steps}
        ELSE at.now / ${monthWindow.stepMs} - ${monthWindow.steps} END
      GROUP BY kind, step) AS each) AS steps
  FROM (SELECT sluice.now_ms() AS now OFFSET 0) AS at`;

/** The draws by month. */
const workspaceUsage = `
  SELECT sluice.now_ms() AS now, ${openSql} AS open, (
    SELECT coalesce(jsonb_agg(jsonb_build_array(period, drawn)), '[]') FROM (
      SELECT period, jsonb_build_array(sum(amounts[1]), sum(amounts[2]), sum(amounts[3])) AS drawn
      FROM sluice.draws WHERE workspace_id = $1 GROUP BY period) AS each) AS draws`;

type Steps = readonly (readonly ["day" | "month", number, number])[];
type DrawsByMonth = readonly (readonly [number, Amounts])[];

export function createUsageQueries(database: Postgres): UsageQueries {
  const query = async (statement: string, id: string): Promise<Row> => {
    try {
      const [row = {}] = await database.query("usage", statement, [id]);
      return row;
    } catch (error) {
      throw explainPostgres(error, database.place);
    }
  };
  return {
    async keyWindows({ id, cuLimit24hMilli, cuLimit30dMilli }) {
      const row = await query(keyUsage, id);
      const time = number(row, "now");
      const open = number(row, "open");
      const windows = { day: new RollingWindow(dayWindow), month: new RollingWindow(monthWindow) };
      // Only the statement above writes the column.
      for (const [kind, step, milliCu] of row["steps"] as Steps) {
        windows[kind].addToStep(step, milliCu);
      }
      return {
        day: windowState(windows.day, cuLimit24hMilli, open, time),
        month: windowState(windows.month, cuLimit30dMilli, open, time),
        openMilliCu: open,
      };
    },
    async workspaceUsage(workspaceId) {
      const row = await query(workspaceUsage, workspaceId);
      const { start } = periodOf(number(row, "now"));
      // Only the statement above writes the column.
      const draws = new Map(row["draws"] as DrawsByMonth);
      const [includedMilliCu = 0, purchasedMilliCu = 0, overageMilliCu = 0] =
        draws.get(start) ?? [];
      const openMilliCu = number(row, "open");
      return { periodStart: start, includedMilliCu, purchasedMilliCu, overageMilliCu, openMilliCu };
    },
    async purchasedLeft({ id, purchasedTotalMilliCu }) {
      const row = await query(workspaceUsage, id);
      let purchasedEver = 0;
      // Only the statement above writes the column.
      for (const [, drawn] of row["draws"] as DrawsByMonth) purchasedEver += drawn[1] ?? 0;
      return Math.max(0, purchasedTotalMilliCu - purchasedEver);
    },
  };
}
