/** Reports the current activity: the last ten minutes, refusals by reason, and the latest exchanges of all gateways. */
import type { ReportedCalls, RunningGateway, SettledExchange } from "sluice-gateway/plugin";
import { latestExchanges, quantile, stepMs, type Activity, type Tally } from "./activity.ts";
import type { AllGateways, GatewayPart } from "./other-gateways.ts";
import type { DashboardParts } from "./parts.ts";
import type { Viewer } from "./session.ts";

/** The activity of one gateway. Gateways send it to each other. */
export interface LiveActivity {
  readonly requests: readonly number[];
  readonly refused: readonly number[];
  readonly failed: readonly number[];
  readonly totals: Readonly<Record<"requests" | "refused" | "failed", number>>;
  /** The latest durations in milliseconds. */
  readonly durations: Float32Array;
  readonly refusals: readonly Refusal[];
  readonly exchanges: readonly ExchangeJson[];
  readonly inFlight: number;
  readonly ready: boolean;
  /** The checks that fail, with their reasons. */
  readonly wrong: readonly string[];
}

interface Refusal {
  readonly code: string;
  readonly recent: number;
  readonly total: number;
}

interface ExchangeJson {
  readonly time: string;
  readonly [member: string]: unknown;
}

/** `only`: id of the workspace whose calls are asked for. Undefined for all. */
export type LiveQuestion = { readonly only: string | undefined };

export type LiveGateways = AllGateways<LiveQuestion, LiveActivity>;

/** Returns the activity of this gateway. */
export function liveActivity(
  { activity, gateway, clock }: Pick<DashboardParts, "gateway" | "clock"> & { activity: Activity },
  { only }: LiveQuestion,
): LiveActivity {
  const running = gateway.running();
  const now = clock.now();
  const tally = only === undefined ? activity.all : activity.group(only);
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
    exchanges: tally.watch(now).map(exchangeJson),
    inFlight: running.exchanges,
    ...readyState(running),
  };
}

/** Returns the activity of all gateways for JSON. A workspace administrator sees only the calls of the workspace's keys. */
export async function live(
  { liveGateways, clock }: DashboardParts,
  { only }: Viewer,
): Promise<object> {
  const { parts, isComplete } = await liveGateways.ask({ only });
  const known = parts.flatMap(({ value, name }) =>
    value === undefined ? [] : [{ ...value, name }],
  );
  const durations = known.flatMap((each) => [...each.durations]);
  const shared = parts.length > 1 || !isComplete;
  return {
    now: new Date(clock.now()).toISOString(),
    step_seconds: stepMs / 1000,
    requests: addedSteps(known.map(({ requests }) => requests)),
    refused: addedSteps(known.map(({ refused }) => refused)),
    failed: addedSteps(known.map(({ failed }) => failed)),
    totals: {
      requests: sum(known.map(({ totals }) => totals.requests)),
      refused: sum(known.map(({ totals }) => totals.refused)),
      failed: sum(known.map(({ totals }) => totals.failed)),
    },
    p50_ms: rounded(quantile(durations, 0.5)),
    p95_ms: rounded(quantile(durations, 0.95)),
    refusals: addedRefusals(known.flatMap((each) => each.refusals)),
    exchanges: known
      .flatMap(({ exchanges, name }) =>
        exchanges.map((exchange) => (shared ? { ...exchange, gateway: name } : exchange)),
      )
      .toSorted((a, b) => (a.time < b.time ? 1 : -1))
      .slice(0, latestExchanges),
    ...(only === undefined && {
      in_flight: sum(known.map(({ inFlight }) => inFlight)),
      ready: known.every(({ ready }) => ready),
      wrong: parts.flatMap((part) => wrongIn(part, shared)),
    }),
    ...(shared && {
      gateways: parts.map(({ name, value }) => ({ name, answered: value !== undefined })),
      complete: isComplete,
    }),
  };
}

function wrongIn({ name, value }: GatewayPart<LiveActivity>, isNamed: boolean): readonly string[] {
  if (value === undefined) return [`${name} does not answer`];
  return isNamed ? value.wrong.map((text) => `${name}: ${text}`) : value.wrong;
}

/** Adds the counts step by step. The steps of different gateways begin at about the same time. */
function addedSteps(all: readonly (readonly number[])[]): number[] {
  const [first = [], ...others] = all;
  return first.map((count, step) => count + sum(others.map((counts) => counts[step] ?? 0)));
}

function addedRefusals(all: readonly Refusal[]): Refusal[] {
  const byCode = Map.groupBy(all, ({ code }) => code);
  return sortedRefusals(
    Array.from(byCode, ([code, each]) => ({
      code,
      recent: sum(each.map(({ recent }) => recent)),
      total: sum(each.map(({ total }) => total)),
    })),
  );
}

function refusals(tally: Tally, now: number): Refusal[] {
  return Array.from(tally.refusals, ([code, counts]) => ({
    code,
    recent: sum(counts.read(now)),
    total: counts.total,
  }));
}

/** Sorts the reasons of the last ten minutes first, by frequency. */
function sortedRefusals(all: readonly Refusal[]): Refusal[] {
  return all.toSorted((a, b) => b.recent - a.recent || b.total - a.total);
}

function exchangeJson({ facts, calls, ...exchange }: SettledExchange): ExchangeJson {
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

/** Returns whether a gateway is ready, and the checks that fail. */
export function readyState({ ready, checks }: Pick<RunningGateway, "ready" | "checks">): {
  readonly ready: boolean;
  readonly wrong: readonly string[];
} {
  const wrong = Object.entries(checks).filter(([, state]) => state !== "ok");
  return { ready, wrong: wrong.map(([name, state]) => `${name}: ${state}`) };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, each) => all + each, 0);
}

/** Rounds milliseconds to microseconds. */
export function rounded(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.round(ms * 1000) / 1000;
}
