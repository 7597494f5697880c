import type { SettledExchange } from "sluice-gateway/plugin";
import { isObject } from "sluice-gateway/internal/toolkit";
import { addCounts, addDuration, type Counts } from "./histogram.ts";

/** `all` has one sum, with the name ``. */
export type SumKind = "all" | "route" | "upstream" | "model";

/** The members have short names because a sum is stored as JSON. */
export interface ExchangeSum {
  /** Number of exchanges. */
  n: number;
  /** Number of exchanges that were answered with a status of 500 or more, or that broke. */
  failed: number;
  codes: Record<string, number>;
  ms: Counts;
  /** Times to the first token. */
  first: Counts;
  inTokens: number;
  outTokens: number;
}

/** The sums of one minute or hour by kind and name. */
export type Sums = Map<string, ExchangeSum>;

/** Maximum number of sums per gateway and minute. Further names are added to the name `other` of their kind. */
const maxSums = 100;
const separator = "\n";

export function newSum(): ExchangeSum {
  return { n: 0, failed: 0, codes: {}, ms: {}, first: {}, inTokens: 0, outTokens: 0 };
}

/** The exchanges that end in one minute. A request adds to two or three sums; `addTo` computes the others. */
export class RunningSums {
  /** Start of the minute in milliseconds since 1970. */
  readonly at: number;
  readonly #routes = new Map<string, ExchangeSum>();
  readonly #upstreams = new Map<string, ExchangeSum>();
  readonly #models = new Map<string, ExchangeSum>();

  constructor(at: number) {
    this.at = at;
  }

  add(exchange: SettledExchange): void {
    const { upstream, completion } = exchange.facts;
    countIn(runningSum(this.#routes, exchange.route.path), exchange);
    if (upstream !== undefined) countIn(runningSum(this.#upstreams, upstream), exchange);
    if (completion !== undefined) countIn(runningSum(this.#models, completion.model), exchange);
  }

  /** Every exchange has a route, so the total is the sum of the routes. */
  addTo(sums: Sums): void {
    for (const [name, sum] of this.#routes) {
      addSum(sumOf(sums, "all", ""), sum);
      addSum(sumOf(sums, "route", name), sum);
    }
    for (const [name, sum] of this.#upstreams) addSum(sumOf(sums, "upstream", name), sum);
    for (const [name, sum] of this.#models) addSum(sumOf(sums, "model", name), sum);
  }
}

function runningSum(sums: Map<string, ExchangeSum>, wanted: string): ExchangeSum {
  const known = sums.get(wanted);
  if (known !== undefined) return known;
  const name = sums.size < maxSums ? wanted : "other";
  const sum = sums.get(name) ?? newSum();
  sums.set(name, sum);
  return sum;
}

function countIn(sum: ExchangeSum, { status, code, ms, facts }: SettledExchange): void {
  sum.n++;
  if (status >= 500 || status === 0) sum.failed++;
  if (code !== undefined) sum.codes[code] = (sum.codes[code] ?? 0) + 1;
  // The duration of a WebSocket is the time for which its client stays connected.
  if (status !== 101) addDuration(sum.ms, ms);
  const { completion } = facts;
  if (completion === undefined) return;
  if (completion.firstTokenMs !== undefined) addDuration(sum.first, completion.firstTokenMs);
  sum.inTokens += completion.inputTokens;
  sum.outTokens += completion.outputTokens;
}

function sumOf(sums: Sums, kind: SumKind, name: string): ExchangeSum {
  const known = sums.get(kind + separator + name);
  if (known !== undefined) return known;
  const key = kind + separator + (sums.size < maxSums ? name : "other");
  const sum = sums.get(key) ?? newSum();
  sums.set(key, sum);
  return sum;
}

export function namesOf(key: string): readonly [kind: string, name: string] {
  const end = key.indexOf(separator);
  return [key.slice(0, end), key.slice(end + separator.length)];
}

/** A stored text that is not a sum adds nothing. */
export function addStored(to: ExchangeSum, json: string): void {
  const sum = parsed(json);
  if (sum !== undefined) addSum(to, sum);
}

function addSum(to: ExchangeSum, sum: ExchangeSum): void {
  to.n += sum.n;
  to.failed += sum.failed;
  for (const [code, count] of Object.entries(sum.codes)) {
    to.codes[code] = (to.codes[code] ?? 0) + count;
  }
  addCounts(to.ms, sum.ms);
  addCounts(to.first, sum.first);
  to.inTokens += sum.inTokens;
  to.outTokens += sum.outTokens;
}

function parsed(json: string): ExchangeSum | undefined {
  try {
    const value: unknown = JSON.parse(json);
    // Only the gateways write the table, so a text that has this member is a sum.
    return isObject(value) && typeof value["n"] === "number"
      ? (value as unknown as ExchangeSum)
      : undefined;
  } catch {
    return undefined;
  }
}
