import { failureText } from "sluice-gateway/internal/http";
import type { Clock, GatewayInfo, RunningGateway, SettledExchange } from "sluice-gateway/plugin";
import { sum, type Activity, type Tally } from "./activity.ts";
import { matches, type LiveFilter } from "./live-filter.ts";
import type { AllGateways } from "./other-gateways.ts";

export const maxExchanges = 100;

/** The activity of one gateway. Gateways send it to each other. */
export interface LiveActivity {
  readonly requests: readonly number[];
  readonly refused: readonly number[];
  readonly failed: readonly number[];
  readonly totals: Readonly<Record<"requests" | "refused" | "failed", number>>;
  readonly durations: Float32Array;
  readonly refusals: readonly Refusal[];
  /** The latest exchanges that match the filter, newest first, at most 100. */
  readonly exchanges: readonly ExchangeJson[];
  readonly searched: number;
  readonly inFlight: number;
  readonly ready: boolean;
  /** The checks that fail, with their reasons. */
  readonly wrong: readonly string[];
  /** True if pipeline.yaml on disk has faults, so that it was not loaded. Undefined from older releases. */
  readonly isReloadRefused?: boolean;
}

export interface Refusal {
  readonly code: string;
  readonly recent: number;
  readonly total: number;
}

export interface ExchangeJson {
  readonly time: string;
  readonly key_id: string | undefined;
  readonly [member: string]: unknown;
}

/** `only`: id of the workspace whose calls are requested. Undefined for all. */
export interface LiveQuestion {
  readonly only?: string | undefined;
  readonly filter?: LiveFilter | undefined;
}

export type LiveGateways = AllGateways<LiveQuestion, LiveActivity>;

interface LiveDeps {
  readonly activity: Activity;
  readonly gateway: GatewayInfo;
  readonly clock: Clock;
}

export function liveActivity(
  { activity, gateway, clock }: LiveDeps,
  { only, filter = {} }: LiveQuestion,
): LiveActivity {
  const running = gateway.running();
  const now = clock.now();
  const tally = only === undefined ? activity.all : activity.group(only);
  const kept = activity.watch(now, only);
  const found = kept.filter((exchange) => matches(exchange, filter)).slice(0, maxExchanges);
  return {
    requests: tally.requests.read(now),
    refused: tally.refused.read(now),
    failed: tally.failed.read(now),
    totals: {
      requests: tally.requests.total,
      refused: tally.refused.total,
      failed: tally.failed.total,
    },
    durations: tally.durations,
    refusals: refusals(tally, now),
    exchanges: found.map((exchange) => exchangeJson(exchange, only === undefined)),
    searched: kept.length,
    inFlight: running.exchanges,
    ...readyState(running),
    isReloadRefused: running.metric("sluice_reload_failed")[0]?.value === 1,
  };
}

function refusals(tally: Tally, now: number): Refusal[] {
  return Array.from(tally.refusals, ([code, counts]) => ({
    code,
    recent: sum(counts.read(now)),
    total: counts.total,
  }));
}

/** `isOperator`: true if the user may see why a backend has failed. */
function exchangeJson(
  { facts, calls, ...exchange }: SettledExchange,
  isOperator: boolean,
): ExchangeJson {
  const { requestId, caller, costMilliCu, upstream, upstreamFailure } = facts;
  return {
    time: new Date(exchange.arrivedAt).toISOString(),
    ms: rounded(exchange.ms),
    method: exchange.method,
    route: exchange.route.path,
    status: exchange.status,
    code: exchange.code,
    reason: exchange.reason,
    upstream,
    upstream_failure:
      isOperator && upstreamFailure !== undefined ? failureText(upstreamFailure) : undefined,
    key_id: caller?.id,
    workspace_id: caller?.group,
    request_id: requestId,
    used_cu_milli: costMilliCu,
    calls: calls && { names: calls.names, items: calls.items, failed: calls.failed },
  };
}

export function readyState({ ready, checks }: Pick<RunningGateway, "ready" | "checks">): {
  readonly ready: boolean;
  readonly wrong: readonly string[];
} {
  const wrong = Object.entries(checks).filter(([, state]) => state !== "ok");
  return { ready, wrong: wrong.map(([name, state]) => `${name}: ${state}`) };
}

/** Rounds milliseconds to microseconds. */
export function rounded(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.round(ms * 1000) / 1000;
}
