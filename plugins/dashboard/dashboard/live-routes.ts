import { BoundedMap } from "sluice-gateway/internal/toolkit";
import { sendInvalidQuery, sendJson, sendRefusal } from "./answer.ts";
import { queryOf } from "./input.ts";
import { quantile, stepMs, sum } from "./activity.ts";
import {
  maxExchanges,
  rounded,
  type ExchangeJson,
  type LiveActivity,
  type LiveQuestion,
  type Refusal,
} from "./live.ts";
import { filterNames, readFilter } from "./live-filter.ts";
import type { DashboardDeps } from "./deps.ts";
import type { GatewayPart } from "./other-gateways.ts";
import type { AddRoute } from "./route.ts";

const maxNames = 1_000;
/** Time for which the name of a key is cached. The page asks every two seconds. */
const nameMs = 60_000;

export function liveRoutes(add: AddRoute, deps: DashboardDeps): void {
  const { clock } = deps;
  const { admin } = deps.accounts;
  const names = new BoundedMap<string, { readonly name: string | undefined; until: number }>(
    maxNames,
  );
  const nameOf = async (id: string): Promise<string | undefined> => {
    const known = names.get(id);
    if (known !== undefined && clock.now() < known.until) return known.name;
    const name = (await admin.findKey(id))?.name;
    names.set(id, { name, until: clock.now() + nameMs });
    return name;
  };
  add("GET", "live", async ({ only }, request, reply) => {
    const query = queryOf(request.url, filterNames);
    if (query === undefined) {
      return sendInvalidQuery(reply, filterNames.join(", "));
    }
    const read = await readFilter(query, admin, only);
    if ("wrong" in read) {
      return sendRefusal(reply, "GATEWAY_INVALID_PARAMS", { message: read.wrong });
    }
    return sendJson(reply, 200, await live(deps, { only, filter: read.value }, nameOf));
  });
}

/** A workspace administrator sees only the calls of the workspace's keys. */
async function live(
  { liveGateways, clock }: DashboardDeps,
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
  return Array.from(byCode, ([code, each]) => ({
    code,
    recent: sum(each.map(({ recent }) => recent)),
    total: sum(each.map(({ total }) => total)),
  })).toSorted((a, b) => b.recent - a.recent || b.total - a.total);
}
