/** Reads from PostgreSQL how much of the shared credit is used. */
import type { Postgres } from "sluice-gateway/plugin";
import { explainPostgres } from "sluice-gateway/postgres";
import type { ApiKey, KeyWindows, Workspace, WorkspaceUsage } from "sluice-gateway/services";
import { dayWindow, monthWindow, RollingWindow, windowState } from "../metering/windows.ts";

/** All methods reject with StoreError. */
export interface UsageQueries {
  keyWindows(key: Pick<ApiKey, "id" | "cuLimit24hMilli" | "cuLimit30dMilli">): Promise<KeyWindows>;
  workspaceUsage(workspaceId: string): Promise<WorkspaceUsage>;
  purchasedLeft(workspace: Workspace): Promise<number>;
}

/** Result of `sluice.key_usage`. A step is the kind of its window, its number and its milli-CU. */
interface KeyUsage {
  readonly time: number;
  readonly open: number;
  readonly steps: readonly (readonly ["day" | "month", number, number])[];
}

/** Result of `sluice.workspace_usage`. `drawn`: included, purchased and overage of this period. */
interface WorkspaceDraws {
  readonly period: number;
  readonly open: number;
  readonly drawn: readonly [number, number, number];
  readonly purchasedEver: number;
}

export function createUsageQueries(database: Postgres): UsageQueries {
  const call = async <T>(name: "key_usage" | "workspace_usage", id: string): Promise<T> => {
    try {
      const [row] = await database.query("usage", `SELECT sluice.${name}($1) AS reply`, [id]);
      // Only the function in schema-usage.ts writes the reply.
      return row?.["reply"] as T;
    } catch (error) {
      throw explainPostgres(error, database.place);
    }
  };
  return {
    async keyWindows({ id, cuLimit24hMilli, cuLimit30dMilli }) {
      const { time, open, steps } = await call<KeyUsage>("key_usage", id);
      const windows = { day: new RollingWindow(dayWindow), month: new RollingWindow(monthWindow) };
      for (const [kind, step, milliCu] of steps) windows[kind].addToStep(step, milliCu);
      return {
        day: windowState(windows.day, cuLimit24hMilli, open, time),
        month: windowState(windows.month, cuLimit30dMilli, open, time),
        openMilliCu: open,
      };
    },
    async workspaceUsage(workspaceId) {
      const { period, open, drawn } = await call<WorkspaceDraws>("workspace_usage", workspaceId);
      const [includedMilliCu, purchasedMilliCu, overageMilliCu] = drawn;
      const amounts = { includedMilliCu, purchasedMilliCu, overageMilliCu, openMilliCu: open };
      return { periodStart: period, ...amounts };
    },
    async purchasedLeft({ id, purchasedTotalMilliCu }) {
      const { purchasedEver } = await call<WorkspaceDraws>("workspace_usage", id);
      return Math.max(0, purchasedTotalMilliCu - purchasedEver);
    },
  };
}
