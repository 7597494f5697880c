import { setImmediate as turn } from "node:timers/promises";
import { sum } from "../activity.ts";
import { sendInvalidQuery, sendJson } from "../answer.ts";
import { queryOf } from "../input.ts";
import type { DashboardDeps } from "../deps.ts";
import type { AddRoute } from "../route.ts";
import type { HistoryRecorder } from "./recorder.ts";
import { percentile, type Counts } from "./histogram.ts";
import { spanMs, type HistoryQuery, type HistoryRow, type Span } from "./store.ts";
import { addStored, newSum, type ExchangeSum, type SumKind } from "./sums.ts";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

interface Range {
  readonly span: Span;
  readonly stepMs: number;
  readonly steps: number;
}

// A map, because names come from the URL and an object also has inherited members.
const ranges: ReadonlyMap<string, Range> = new Map([
  ["1h", { span: "minute", stepMs: minuteMs, steps: 60 }],
  ["24h", { span: "minute", stepMs: 15 * minuteMs, steps: 96 }],
  ["7d", { span: "hour", stepMs: hourMs, steps: 168 }],
  ["30d", { span: "hour", stepMs: 6 * hourMs, steps: 120 }],
]);

const kinds: readonly SumKind[] = ["all", "route", "upstream", "model"];
/** Maximum number of names in an answer, those with the most requests. */
const maxNames = 50;
const rowsPerTurn = 1_000;

export function historyRoutes(add: AddRoute, deps: DashboardDeps): void {
  add(
    "GET",
    "history",
    async (_viewer, request, reply) => {
      const query = queryOf(request.url, ["range", "by", "name"]);
      const range = ranges.get(query?.["range"] ?? "");
      const kind = kinds.find((each) => each === query?.["by"]);
      if (query === undefined || range === undefined || kind === undefined) {
        const names = "range=1h, 24h, 7d or 30d, by=all, route, upstream or model, and name";
        return sendInvalidQuery(reply, names);
      }
      return sendJson(reply, 200, await answer(deps, { range, kind, name: query["name"] }));
    },
    "platform",
  );
}

interface Question {
  readonly range: Range;
  readonly kind: SumKind;
  /** Undefined for the sum of all exchanges. */
  readonly name: string | undefined;
}

async function answer(
  { history, clock }: DashboardDeps,
  { range, kind, name }: Question,
): Promise<object> {
  const { span, stepMs, steps } = range;
  const last = Math.floor(clock.now() / stepMs) * stepMs;
  const from = last - (steps - 1) * stepMs;
  const times = { span, from, to: last + stepMs };
  const byName = await summed(await readAll(history, { ...times, kind }), (row) => row.name);
  const wanted = await history.read({ ...times, kind: name === undefined ? "all" : kind, name });
  const byStep = await summed(wanted, ({ at }) => Math.floor((at - from) / stepMs));
  const total = await summed(wanted, () => "");
  return {
    from: new Date(from).toISOString(),
    step_seconds: stepMs / 1000,
    steps,
    // Rows are written every minute, and each covers a minute or an hour.
    resolution_seconds: spanMs[span] / 1000,
    by: kind,
    name,
    total: sumJson(total.get("") ?? newSum()),
    names: Array.from(byName, ([each, added]) => ({ name: each, ...sumJson(added) }))
      .toSorted((a, b) => b.requests - a.requests || (a.name < b.name ? -1 : 1))
      .slice(0, maxNames),
    name_count: byName.size,
    series: seriesJson(Array.from({ length: steps }, (_, step) => byStep.get(step) ?? newSum())),
  };
}

/** Whole hours are read as hours, because a day of the minutes of all names can have more than 100,000 rows. */
async function readAll(
  history: HistoryRecorder,
  query: HistoryQuery,
): Promise<readonly HistoryRow[]> {
  const { span, from, to } = query;
  const firstHour = Math.ceil(from / hourMs) * hourMs;
  const endHour = Math.floor(to / hourMs) * hourMs;
  if (span === "hour" || firstHour >= endHour) return history.read(query);
  const parts = [
    await history.read({ ...query, to: firstHour }),
    await history.read({ ...query, span: "hour", from: firstHour, to: endHour }),
    await history.read({ ...query, from: endHour }),
  ];
  return parts.flat();
}

/** Other work runs in between, because a range can have tens of thousands of rows. */
async function summed<Key>(
  rows: readonly HistoryRow[],
  keyOf: (row: HistoryRow) => Key,
): Promise<Map<Key, ExchangeSum>> {
  const sums = new Map<Key, ExchangeSum>();
  for (const [index, row] of rows.entries()) {
    if (index % rowsPerTurn === rowsPerTurn - 1) await turn();
    const key = keyOf(row);
    const found = sums.get(key) ?? newSum();
    sums.set(key, found);
    addStored(found, row.sum);
  }
  return sums;
}

function sumJson({ n, failed, codes, ms, first, inTokens, outTokens }: ExchangeSum) {
  return {
    requests: n,
    failed,
    codes,
    p50_ms: shown(ms, 0.5),
    p95_ms: shown(ms, 0.95),
    p99_ms: shown(ms, 0.99),
    first_token_p50_ms: shown(first, 0.5),
    first_token_p95_ms: shown(first, 0.95),
    input_tokens: inTokens,
    output_tokens: outTokens,
  };
}

/** Percentiles of steps without requests are null. */
function seriesJson(steps: readonly ExchangeSum[]): object {
  const shownSteps = steps.map(sumJson);
  return {
    ...Object.fromEntries(
      seriesMembers.map((member) => [member, shownSteps.map((step) => step[member] ?? null)]),
    ),
    refused: steps.map(({ codes }) => sum(Object.values(codes))),
  };
}

const seriesMembers = [
  "requests",
  "failed",
  "p50_ms",
  "p95_ms",
  "p99_ms",
  "first_token_p50_ms",
  "first_token_p95_ms",
  "input_tokens",
  "output_tokens",
] as const;

function shown(counts: Counts, q: number): number | undefined {
  const ms = percentile(counts, q);
  return ms === undefined ? undefined : Math.round(ms * 100) / 100;
}
