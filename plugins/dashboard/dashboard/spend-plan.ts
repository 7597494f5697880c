import type { Plan, Workspace, WorkspaceUsage } from "sluice-gateway/services";
import { sum } from "./activity.ts";
import { overageUsd, valueUsd } from "./money.ts";
import type { DashboardDeps } from "./deps.ts";

export const dayMs = 86_400_000;
/** After the first charge, at least an hour counts as elapsed, so that the forecast is not absurdly high. */
const minTodayMs = 3_600_000;
/**
 * Maximum number of whole days before today that the forecast uses. It expects the mean of these days and today for
 * each remaining day of the month. Days before the first charge do not count.
 */
const meanDays = 7;

/** The answer for one workspace has its plan and limits. Undefined if the charges cannot be read now. */
export async function planJson(
  deps: DashboardDeps,
  workspaceId: string | undefined,
): Promise<object | undefined> {
  const { clock, metering, accounts } = deps;
  const now = clock.now();
  const date = new Date(now);
  const start = Date.UTC(date.getUTCFullYear(), date.getUTCMonth());
  const end = Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1);
  const today = Math.floor(now / dayMs) * dayMs;
  const from = Math.min(start, today - meanDays * dayMs);
  const query = { workspaceId, from, to: today + dayMs, by: "tool", limit: 0 } as const;
  const answer = await metering.usage.spend(query);
  if (answer.kind !== "done") return undefined;
  // The range has more than two days, so its steps are days.
  const { steps: days } = answer.spend;
  const used = sum(days.slice((start - from) / dayMs));
  const recent = days.slice(-(meanDays + 1));
  const forecast = forecastMilliCu({ used, recent, now, today, end });
  const month = {
    start: new Date(start).toISOString(),
    end: new Date(end).toISOString(),
    used_cu_milli: used,
    forecast_cu_milli: forecast,
    forecast_value_usd: valueUsd(forecast),
  };
  const workspace =
    workspaceId === undefined ? undefined : await accounts.admin.findWorkspace(workspaceId);
  if (workspace === undefined) return month;
  const { plan, drawn, purchasedLeft, limits } = await monthOf(deps, workspace);
  const overage = Math.min(
    limits.overage,
    Math.max(drawn.overageMilliCu, forecast - limits.includedAndPurchased),
  );
  return {
    ...month,
    plan: workspace.plan,
    plan_includes_cu_milli: plan.includedMilliCu,
    included_cu_milli: drawn.includedMilliCu,
    purchased_cu_milli: drawn.purchasedMilliCu,
    purchased_left_cu_milli: purchasedLeft,
    overage_cu_milli: drawn.overageMilliCu,
    overage_limit_cu_milli: workspace.overageLimitCuMilli,
    overage_usd_per_cu: plan.overageUsdPerCu,
    limit_cu_milli: limits.total,
    forecast_overage_usd: overageUsd(Math.max(0, overage), plan.overageUsdPerCu),
  };
}

interface Month {
  readonly plan: Plan;
  readonly drawn: WorkspaceUsage;
  readonly purchasedLeft: number;
  readonly limits: Limits;
}

export async function monthOf(
  { metering, accounts }: DashboardDeps,
  workspace: Workspace,
): Promise<Month> {
  const drawn = await metering.workspaceUsage(workspace.id);
  const purchasedLeft = await metering.purchasedLeft(workspace);
  const plan = accounts.admin.plan(workspace.plan);
  return { plan, drawn, purchasedLeft, limits: limitsOf(workspace, plan, drawn, purchasedLeft) };
}

/** All times are in milliseconds since 1970. `recent`: milli-CU of each of the last days and of today. */
function forecastMilliCu(month: {
  readonly used: number;
  readonly recent: readonly number[];
  readonly now: number;
  readonly today: number;
  readonly end: number;
}): number {
  const { used, recent, now, today, end } = month;
  const first = recent.findIndex((milliCu) => milliCu > 0);
  if (first === -1) return used;
  const wholeDays = recent.length - 1 - first;
  const perMs = sum(recent) / (wholeDays * dayMs + Math.max(now - today, minTodayMs));
  return used + Math.round(perMs * (end - now));
}

/** Amounts in milli-CU that the workspace may use in this month. `total`: undefined if the overage is not limited. */
interface Limits {
  readonly includedAndPurchased: number;
  readonly overage: number;
  readonly total: number | undefined;
}

function limitsOf(
  { overageLimitCuMilli }: Workspace,
  { includedMilliCu, overageUsdPerCu }: Plan,
  drawn: WorkspaceUsage,
  purchasedLeft: number,
): Limits {
  const overage = overageUsdPerCu === undefined ? 0 : (overageLimitCuMilli ?? Infinity);
  const includedAndPurchased = includedMilliCu + drawn.purchasedMilliCu + purchasedLeft;
  const total = Number.isFinite(overage) ? includedAndPurchased + overage : undefined;
  return { includedAndPurchased, overage, total };
}
