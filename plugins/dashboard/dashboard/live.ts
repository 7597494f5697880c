import { failureText } from "sluice-gateway/internal/http";
import type {
  Clock,
  GatewayInfo,
  ReportedCalls,
  RunningGateway,
  SettledExchange,
} from "sluice-gateway/plugin";
import { quantile, stepMs, type Activity, type Tally } from "./activity.ts";
import { matches, type LiveFilter } from "./live-filter.ts";
import type { AllGateways, GatewayPart } from "./other-gateways.ts";

const maxExchanges = 100;

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

interface Refusal {
  readonly code: string;
  readonly recent: number;
  readonly total: number;
}

interface ExchangeJson {
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

/** A workspace administrator sees only the calls of the workspace's keys. */
export async function live(
  { liveGateways, clock }: { readonly liveGateways: LiveGateways; readonly clock: Clock },
  { only, filter }: LiveQuestion,
  nameOf: (keyId: string) => Promise<string | undefined>,
): Promise<object> {
  const { parts, isComplete } = await liveGateways.ask({ only, filter });
  const known = parts.flatMap(({ value, name }) =>
    value === undefined ? [] : [{ ...value, name }],
  );
  const durations = known.flatMap((each) => [...each.durations]);
  const shared = parts.length > 1 || !isComplete;
  const exchanges = known
    .flatMap(({ exchanges: own, name }) =>
      own.map((exchange) => (shared ? { ...exchange, gateway: name } : exchange)),
    )
    .toSorted((a, b) => (a.time < b.time ? 1 : -1))
    .slice(0, maxExchanges);
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
    exchanges: await withKeyNames(exchanges, nameOf),
    searched: sum(known.map(({ searched }) => searched)),
    ...(only === undefined && {
      in_flight: sum(known.map(({ inFlight }) => inFlight)),
      ready: known.every(({ ready }) => ready),
      wrong: parts.flatMap((part) => wrongIn(part, shared)),
      reload_refused: known.some(({ isReloadRefused = false }) => isReloadRefused),
    }),
    ...(shared && {
      gateways: parts.map(({ name, value }) => ({ name, answered: value !== undefined })),
      complete: isComplete,
    }),
  };
}

async function withKeyNames(
  exchanges: readonly ExchangeJson[],
  nameOf: (keyId: string) => Promise<string | undefined>,
): Promise<ExchangeJson[]> {
  const ids = new Set(exchanges.flatMap(({ key_id: id }) => (id === undefined ? [] : [id])));
  const names = new Map(
    await Promise.all(Array.from(ids, async (id) => [id, await nameOf(id)] as const)),
  );
  return exchanges.map((each) =>
    each.key_id === undefined ? each : { ...each, key_name: names.get(each.key_id) },
  );
}

function wrongIn({ name, value }: GatewayPart<LiveActivity>, isNamed: boolean): readonly string[] {
  if (value === undefined) return [`${name} does not answer`];
  return isNamed ? value.wrong.map((text) => `${name}: ${text}`) : value.wrong;
}

/** The steps of different gateways begin at about the same time. */
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

function sortedRefusals(all: readonly Refusal[]): Refusal[] {
  return all.toSorted((a, b) => b.recent - a.recent || b.total - a.total);
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
    calls: calls && callsJson(calls),
  };
}

function callsJson({ names, items, failed }: ReportedCalls): object {
  return { names, items, failed };
}

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
