/** Reports the current activity: the last ten minutes, refusals by reason, and the latest exchanges. */
import type { ReportedCalls, RunningGateway, SettledExchange } from "sluice-gateway/plugin";
import { stepMs, type Tally } from "./activity.ts";
import type { DashboardParts } from "./parts.ts";
import type { Viewer } from "./session.ts";

/** Returns the activity for JSON. A workspace administrator sees only the calls of the workspace's keys. */
export function live(parts: DashboardParts, { only }: Viewer): object {
  const { activity, gateway, clock } = parts;
  const running = gateway.running();
  const now = clock.now();
  const tally = only === undefined ? activity.all : activity.group(only);
  return {
    now: new Date(now).toISOString(),
    step_seconds: stepMs / 1000,
    requests: tally.requests.read(now),
    refused: tally.refused.read(now),
    failed: tally.failed.read(now),
    totals: {
      requests: tally.requests.total,
      refused: tally.refused.total,
      failed: tally.failed.total,
    },
    p50_ms: rounded(tally.quantile(0.5)),
    p95_ms: rounded(tally.quantile(0.95)),
    refusals: refusals(tally, now),
    exchanges: tally.watch(now).map(exchangeJson),
    ...(only === undefined && { in_flight: running.exchanges, ...readyJson(running) }),
  };
}

/** Returns the reasons of the last ten minutes first, ordered by frequency. */
function refusals(tally: Tally, now: number): object[] {
  return Array.from(tally.refusals, ([code, counts]) => ({
    code,
    recent: counts.read(now).reduce((sum, count) => sum + count, 0),
    total: counts.total,
  })).toSorted((a, b) => b.recent - a.recent || b.total - a.total);
}

function exchangeJson({ facts, calls, ...exchange }: SettledExchange): object {
  const { requestId, caller, costMilliCu } = facts;
  return {
    time: new Date(exchange.arrivedAt).toISOString(),
    ms: rounded(exchange.ms),
    method: exchange.method,
    route: exchange.route.path,
    status: exchange.status,
    code: exchange.code,
    key_id: caller?.id,
    workspace_id: caller?.group,
    request_id: requestId,
    used_cu_milli: costMilliCu,
    calls: calls && callsJson(calls),
  };
}

function callsJson({ names, items, failed }: ReportedCalls): object {
  return { names, items, failed };
}

function readyJson({ ready, checks }: RunningGateway): object {
  const wrong = Object.entries(checks).filter(([, state]) => state !== "ok");
  return { ready, wrong: wrong.map(([name, state]) => `${name}: ${state}`) };
}

/** Rounds milliseconds to microseconds. */
export function rounded(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.round(ms * 1000) / 1000;
}
