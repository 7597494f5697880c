/** Reports charges over time. A thread adds them up, and answers are cached, so that several viewers cost one pass. */
import type { Awaitable } from "sluice-gateway/plugin";
import type { Series, UsageSeries } from "sluice-gateway/services";
import { sendJson, sendRefusal } from "./answer.ts";
import type { AddRoute } from "./route.ts";
import { queryOf } from "./input.ts";
import type { DashboardParts } from "./parts.ts";

const minuteMs = 60_000;

interface Range {
  readonly stepMs: number;
  readonly steps: number;
  /** Time for which an answer is cached. */
  readonly keepMs: number;
}

// A map, because names come from the URL and an object also has inherited members.
const ranges: ReadonlyMap<string, Range> = new Map([
  ["1h", { stepMs: minuteMs, steps: 60, keepMs: 5_000 }],
  ["24h", { stepMs: 30 * minuteMs, steps: 48, keepMs: 30_000 }],
  ["30d", { stepMs: 12 * 60 * minuteMs, steps: 60, keepMs: 5 * minuteMs }],
]);

/** Maximum number of cached answers. */
const maxAnswers = 64;

interface Kept {
  readonly until: number;
  readonly result: Promise<UsageSeries | undefined>;
}

export function usageRoutes(add: AddRoute, parts: DashboardParts): void {
  const kept = new Map<string, Kept>();
  const { admin } = parts.accounts;
  add("GET", "usage", async (viewer, request, reply) => {
    const query = queryOf(request.url, ["range", "workspace"]);
    const range = ranges.get(query?.["range"] ?? "");
    if (query === undefined || range === undefined) {
      const message = "invalid query, expected range=1h, 24h or 30d, and workspace";
      return sendRefusal(reply, "GATEWAY_INVALID_PARAMS", { message });
    }
    const wanted = query["workspace"];
    const isOutside = viewer.only !== undefined && wanted !== undefined && wanted !== viewer.only;
    const workspaceId = viewer.only ?? wanted;
    if (isOutside || !(await exists(parts, workspaceId)))
      return sendRefusal(reply, "GATEWAY_NOT_FOUND");

    const now = parts.clock.now();
    const { stepMs, steps, keepMs } = range;
    const from = Math.floor(now / stepMs) * stepMs - (steps - 1) * stepMs;
    const name = `${query["range"]} ${workspaceId ?? ""}`;
    for (const [each, { until }] of kept) if (until <= now) kept.delete(each);
    let entry = kept.get(name);
    if (entry === undefined) {
      if (kept.size >= maxAnswers) return sendRefusal(reply, "GATEWAY_SERVICE_UNAVAILABLE");
      const result = parts.metering.usage.series({ workspaceId, from, stepMs, steps });
      entry = { until: now + keepMs, result };
      kept.set(name, entry);
    }
    const series = await entry.result;
    if (series === undefined) {
      kept.delete(name);
      return sendRefusal(reply, "GATEWAY_SERVICE_UNAVAILABLE");
    }
    return sendJson(reply, 200, {
      from: new Date(from).toISOString(),
      step_seconds: stepMs / 1000,
      steps,
      calls: series.calls,
      used_cu_milli: series.usedMilliCu,
      surfaces: series.surfaces.map((line) => seriesJson(line, undefined)),
      workspaces: await named(series.workspaces, (id) => admin.findWorkspace(id)),
      keys: await named(series.keys, (id) => admin.findKey(id)),
      ...(workspaceId !== undefined && { period: await periodJson(parts, workspaceId) }),
    });
  });
}

async function exists(
  { accounts }: DashboardParts,
  workspaceId: string | undefined,
): Promise<boolean> {
  if (workspaceId === undefined) return true;
  return (await accounts.admin.findWorkspace(workspaceId)) !== undefined;
}

function seriesJson(
  { name, calls, usedMilliCu, values }: Series,
  title: string | undefined,
): object {
  return { id: name, name: title, calls, used_cu_milli: usedMilliCu, values };
}

/** Returns lines with the name that `find` knows for their id. The line of all others has no id. */
function named(
  lines: readonly Series[],
  find: (id: string) => Awaitable<{ readonly name: string } | undefined>,
): Promise<object[]> {
  return Promise.all(
    lines.map(async (line) => {
      const found = line.name === undefined ? undefined : await find(line.name);
      return seriesJson(line, found?.name);
    }),
  );
}

/** Returns the usage of the workspace in the current billing period, and the credit of its plan and purchases. */
async function periodJson(
  { accounts: { admin }, metering }: DashboardParts,
  id: string,
): Promise<object | undefined> {
  const workspace = await admin.findWorkspace(id);
  if (workspace === undefined) return undefined;
  const used = await metering.workspaceUsage(id);
  return {
    start: new Date(used.periodStart).toISOString(),
    plan: workspace.plan,
    plan_includes_cu_milli: admin.plan(workspace.plan).includedMilliCu,
    included_cu_milli: used.includedMilliCu,
    purchased_cu_milli: used.purchasedMilliCu,
    purchased_left_cu_milli: await metering.purchasedLeft(workspace),
    overage_cu_milli: used.overageMilliCu,
    overage_limit_cu_milli: workspace.overageLimitCuMilli,
  };
}
