import type { CallReport } from "../../contract/called.ts";
import { otherName } from "./call-record.ts";
import { methodLabel } from "./method-label.ts";
import type { Counter, Family, Gauge, Histogram, Metrics, Outcome } from "../../plugin.ts";

/** In seconds, from a cache hit to a long stream. */
const latencyBuckets = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
];

type StatusClass = "1xx" | "2xx" | "3xx" | "4xx" | "5xx" | "none";

export interface CoreMetrics {
  readonly requests: Family<"route" | "method" | "status", Counter>;
  readonly latency: Family<"route", Histogram>;
  readonly refusals: Family<"route" | "code", Counter>;
  readonly outcomes: Family<"route" | "outcome", Counter>;
  readonly shadowRefusals: Family<"route" | "step", Counter>;
  readonly calls: Family<"route" | "kind" | "name" | "code", Counter>;
  readonly steps: StepMetrics;
  /** Running exchanges of a route, in all generations. */
  open(route: string): OpenExchanges;
}

/** Counters of every step and surface of a route. The label `step` is the name of the plugin. */
export interface StepMetrics {
  readonly seconds: Family<"route" | "step", Counter>;
  readonly timed: Family<"route" | "step", Counter>;
  readonly refusals: Family<"route" | "step" | "code", Counter>;
  readonly errors: Family<"route" | "step", Counter>;
  readonly timeouts: Family<"route" | "step" | "phase", Counter>;
  readonly skips: Family<"route" | "step", Counter>;
  readonly blocks: Family<"route" | "step", Counter>;
}

interface OpenExchanges {
  count: number;
  readonly gauge: Gauge;
}

export function coreMetrics(metrics: Metrics): CoreMetrics {
  const gauges = metrics.gauge("sluice_exchanges_open", "Running exchanges, by route.", ["route"]);
  const open = new Map<string, OpenExchanges>();
  return {
    open(route) {
      let exchanges = open.get(route);
      if (exchanges === undefined) {
        exchanges = newOpen(gauges.with({ route }));
        open.set(route, exchanges);
      }
      return exchanges;
    },
    requests: metrics.counter(
      "sluice_requests_total",
      "Exchanges by route, method and status class.",
      ["route", "method", "status"],
    ),
    latency: metrics.histogram(
      "sluice_request_seconds",
      "Time from the arrival of the request's head to the end of the exchange.",
      latencyBuckets,
      ["route"],
    ),
    refusals: metrics.counter(
      "sluice_refusals_total",
      "Refused requests and requests with a failed call, by route and code.",
      ["route", "code"],
    ),
    outcomes: metrics.counter("sluice_outcomes_total", "Exchanges by route and outcome.", [
      "route",
      "outcome",
    ]),
    steps: stepMetrics(metrics),
    shadowRefusals: metrics.counter(
      "sluice_shadow_refusals_total",
      "Requests that a step in shadow mode would have refused.",
      ["route", "step"],
    ),
    calls: metrics.counter(
      "sluice_calls_total",
      "Calls that requests carried, by result. Names that are not listed count as `other`.",
      ["route", "kind", "name", "code"],
    ),
  };
}

function stepMetrics(metrics: Metrics): StepMetrics {
  return {
    seconds: metrics.counter(
      "sluice_step_seconds_total",
      "Time of the hooks of a step or surface, including waiting, in the requests that were timed.",
      ["route", "step"],
    ),
    timed: metrics.counter(
      "sluice_step_timed_total",
      "Timed requests that reached a step or surface. Under load, one request in eight is timed.",
      ["route", "step"],
    ),
    refusals: metrics.counter(
      "sluice_step_refusals_total",
      "Requests that a step or surface refused, by code.",
      ["route", "step", "code"],
    ),
    errors: metrics.counter(
      "sluice_step_errors_total",
      "Failures of a step or surface: it threw an exception, or broke its contract.",
      ["route", "step"],
    ),
    timeouts: metrics.counter(
      "sluice_step_timeouts_total",
      "Hooks of steps that took longer than the `timeoutMs` of the step.",
      ["route", "step", "phase"],
    ),
    skips: metrics.counter(
      "sluice_step_skips_total",
      "Requests that continued without a step with `onError: skip`, because it had failed.",
      ["route", "step"],
    ),
    blocks: metrics.counter(
      "sluice_step_blocks_total",
      "Hooks of a step or surface that computed for at least one second, while all other requests waited.",
      ["route", "step"],
    ),
  };
}

function newOpen(gauge: Gauge): OpenExchanges {
  gauge.set(0);
  return { count: 0, gauge };
}

type RequestCounters = Readonly<Record<StatusClass, Counter>>;

/** The time series of one route. They are bound once, so that an exchange only adds numbers. */
export class RouteStats {
  readonly #core: CoreMetrics;
  readonly #path: string;
  readonly #methods: readonly string[];
  readonly #latency: Histogram;
  readonly #open: OpenExchanges;
  /** Counters of requests by the label of the method. Those of the listed methods exist from the start. */
  readonly #requests = new Map<string, RequestCounters>();
  readonly #outcomes = new Map<Outcome, Counter>();
  readonly #refusals = new Map<string, Counter>();
  /** Counters of calls by kind, name and code. The maps are nested, because a joined key would cost a string per call. */
  readonly #calls = new Map<string, Map<string, Map<string, Counter>>>();

  constructor(core: CoreMetrics, path: string, methods: readonly string[]) {
    this.#core = core;
    this.#path = path;
    this.#methods = methods;
    this.#open = core.open(path);
    this.#latency = core.latency.with({ route: path });
    for (const method of methods) if (method !== "*") this.#requestsWith(method);
  }

  get running(): number {
    return this.#open.count;
  }

  entered(): void {
    this.#open.gauge.set(++this.#open.count);
  }

  left(): void {
    this.#open.gauge.set(--this.#open.count);
  }

  /** `status`: 0 if no head was sent. */
  settled(
    method: string,
    status: number,
    code: string | undefined,
    outcome: Outcome,
    seconds: number,
  ): void {
    const requests =
      this.#requests.get(method) ?? this.#requestsWith(methodLabel(this.#methods, method));
    requests[statusClass(status)].add(1);
    this.#latency.observe(seconds);
    let ended = this.#outcomes.get(outcome);
    if (ended === undefined) {
      ended = this.#core.outcomes.with({ route: this.#path, outcome });
      this.#outcomes.set(outcome, ended);
    }
    ended.add(1);
    if (code !== undefined) this.#refused(code);
  }

  /** Names that are not listed share a series, so that clients cannot add any. */
  called({ kind, name, isListed, code = "ok" }: CallReport): void {
    const label = isListed ? name : otherName;
    let byName = this.#calls.get(kind);
    if (byName === undefined) {
      byName = new Map();
      this.#calls.set(kind, byName);
    }
    let byCode = byName.get(label);
    if (byCode === undefined) {
      byCode = new Map();
      byName.set(label, byCode);
    }
    let calls = byCode.get(code);
    if (calls === undefined) {
      calls = this.#core.calls.with({ route: this.#path, kind, name: label, code });
      byCode.set(code, calls);
    }
    calls.add(1);
  }

  #requestsWith(method: string): RequestCounters {
    const known = this.#requests.get(method);
    if (known !== undefined) return known;
    const requests = (status: StatusClass): Counter =>
      this.#core.requests.with({ route: this.#path, method, status });
    const created = {
      "1xx": requests("1xx"),
      "2xx": requests("2xx"),
      "3xx": requests("3xx"),
      "4xx": requests("4xx"),
      "5xx": requests("5xx"),
      none: requests("none"),
    };
    this.#requests.set(method, created);
    return created;
  }

  #refused(code: string): void {
    let refused = this.#refusals.get(code);
    if (refused === undefined) {
      refused = this.#core.refusals.with({ route: this.#path, code });
      this.#refusals.set(code, refused);
    }
    refused.add(1);
  }
}

function statusClass(status: number): StatusClass {
  if (status < 100) return "none";
  if (status < 200) return "1xx";
  if (status < 300) return "2xx";
  if (status < 400) return "3xx";
  return status < 500 ? "4xx" : "5xx";
}
