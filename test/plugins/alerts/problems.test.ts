/**
 * The state machine of problems, and the functions that find them in the state and the metrics of a gateway: each is
 * reported once, and its end once.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  ejectedBackends,
  failedReload,
  lowDisk,
  stuckExport,
} from "../../../plugins/alerts/alerts/gateway-problems.ts";
import { type Problem, Problems } from "../../../plugins/alerts/alerts/problems.ts";
import type { BackendStatus, RunningGateway } from "../../../src/plugin.ts";
import { MetricWatch } from "../../../plugins/alerts/alerts/metric-problems.ts";

const minute = 60_000;

function problem(id: string): Problem {
  return {
    id,
    raised: { type: "backend.ejected", summary: id, data: {} },
    resolved: { type: "backend.returned", summary: id, data: {} },
  };
}

function reported(
  problems: Problems,
  prefix: string,
  ids: readonly string[],
  now: number,
): string[] {
  return problems
    .update(prefix, ids.map(problem), now)
    .map(({ type, summary }) => `${type} ${summary}`);
}

test("a problem is reported once, and its end once", () => {
  const problems = new Problems();
  assert.deepEqual(reported(problems, "b", ["b1", "b2"], 0), [
    "backend.ejected b1",
    "backend.ejected b2",
  ]);
  assert.deepEqual(reported(problems, "b", ["b1", "b2"], minute), []);
  assert.deepEqual(reported(problems, "b", ["b2"], 2 * minute), ["backend.returned b1"]);
  assert.deepEqual(reported(problems, "b", ["b2"], 3 * minute), []);
});

test("the problems of one source do not end those of another", () => {
  const problems = new Problems();
  reported(problems, "b", ["b1"], 0);
  assert.deepEqual(reported(problems, "d", ["d1"], 0), ["backend.ejected d1"]);
  assert.deepEqual(reported(problems, "d", [], 0), ["backend.returned d1"]);
});

test("a problem that comes and goes is reported once in ten minutes", () => {
  const problems = new Problems();
  const seen: string[] = [];
  for (let at = 0; at < 20; at++) {
    seen.push(...reported(problems, "b", at % 2 === 0 ? ["b1"] : [], at * minute));
  }
  assert.deepEqual(seen, [
    "backend.ejected b1",
    "backend.returned b1",
    "backend.ejected b1",
    "backend.returned b1",
  ]);
});

test("a problem that returns in the quiet time and stays is reported after it", () => {
  const problems = new Problems();
  reported(problems, "b", ["b1"], 0);
  reported(problems, "b", [], minute);
  assert.deepEqual(reported(problems, "b", ["b1"], 9 * minute), []);
  assert.deepEqual(reported(problems, "b", ["b1"], 10 * minute), ["backend.ejected b1"]);
});

test("the number of problems that are remembered is bounded", () => {
  const problems = new Problems();
  const ids = Array.from({ length: 5_000 }, (_, at) => `b${at}`);
  assert.equal(reported(problems, "b", ids, 0).length, 1_000);
  assert.equal(reported(problems, "b", [], 10 * minute).length, 1_000);
  assert.equal(reported(problems, "b", ["b0"], 11 * minute).length, 1);
});

function ejected(backend: Partial<BackendStatus>): (object | string)[] {
  const status = { kind: "upstream", title: "upstream api", ready: true as const, ...backend };
  return ejectedBackends({ backends: [status] }).flatMap(({ raised, resolved }) => [
    raised.data,
    raised.summary,
    resolved?.type ?? "",
  ]);
}

test("each ejected server of a backend is a problem", () => {
  const urls = [
    { name: "10.0.0.1:80", state: "usable" },
    { name: "10.0.0.2:80", state: "unreachable" },
  ];
  assert.deepEqual(ejected({ details: { urls } }), [
    { kind: "upstream", backend: "upstream api", server: "10.0.0.2:80", reason: "unreachable" },
    "10.0.0.2:80 of upstream api is not used: unreachable",
    "backend.returned",
  ]);
});

test("workers that are busy, draining or not admitted are not ejected", () => {
  const workers = ["active", "busy", "draining", "not admitted"].map((state) => ({
    name: state,
    state,
  }));
  assert.deepEqual(ejected({ details: { workers } }), []);
  const left = [{ name: "w1", state: "left out" }];
  assert.equal(ejected({ details: { workers: left } }).length, 3);
});

test("a backend that cannot be used is a problem, also without a list of servers", () => {
  assert.deepEqual(ejected({ ready: "no usable worker", details: { workers: [] } }), [
    { kind: "upstream", backend: "upstream api", reason: "no usable worker" },
    "upstream api is not used: no usable worker",
    "backend.returned",
  ]);
});

test("a backend at a default address is not a problem", () => {
  assert.deepEqual(ejected({ ready: "unreachable", isDefault: true }), []);
});

test("details that are not as expected are ignored, and long names are cut", () => {
  for (const urls of [null, 5, "text", [null, 5, {}, { name: 1, state: "x" }]]) {
    assert.deepEqual(ejected({ details: { urls } }), []);
  }
  const [raised] = ejected({ details: { urls: [{ name: "x".repeat(9_999), state: "down" }] } });
  assert.ok(JSON.stringify(raised).length < 500);
});

test("a head that differs is a problem of the backends, which ends when the head is proved again", () => {
  const problems = new Problems();
  const look = (ready: true | string): string[] => {
    const head = { kind: "head", title: "finalized head of ledger", ready };
    return problems
      .update("backend", ejectedBackends({ backends: [head] }), 0)
      .map(({ type }) => type);
  };
  assert.deepEqual(look("a node differs"), ["head.differs"]);
  assert.deepEqual(look("a node differs"), []);
  assert.deepEqual(look(true), ["head.agrees"]);
});

test("a failed reload lists the first faults", () => {
  assert.deepEqual(failedReload({ generation: 1, reload: { faults: [] } }), []);
  const fault = { code: "SLUICE_X", message: "unknown step", at: { line: 3, col: 1 } };
  const faults = Array.from({ length: 20 }, () => fault);
  const [found] = failedReload({ generation: 4, reload: { faults } });
  assert.match(found?.raised.summary ?? "", /unknown step/);
  const data = found?.raised.data as { readonly faults: readonly object[] };
  assert.equal(data.faults.length, 10);
  assert.deepEqual(data.faults[0], { code: "SLUICE_X", message: "unknown step", line: 3 });
});

test("the export is stuck if the sink refuses, or if a charge waits too long", () => {
  const at = (stopped: number, lagSeconds: number): unknown => {
    const metric = (name: string) => [
      { labels: {}, value: name === "sluice_usage_export_stopped" ? stopped : lagSeconds },
    ];
    return stuckExport({ metric }, 900_000)[0]?.raised.data;
  };
  assert.equal(at(0, 900), undefined);
  assert.deepEqual(at(0, 901), { reason: "behind", lag_seconds: 901 });
  assert.deepEqual(at(1, 5), { reason: "refused", lag_seconds: 5 });
  assert.deepEqual(stuckExport({ metric: () => [] }, 900_000), []);
});

test("the disk is low below the limit, and an unknown size is ignored", () => {
  const at = (freeBytes: number, totalBytes = 1_000): unknown =>
    lowDisk({ freeBytes, totalBytes }, "/data", 10)[0]?.raised.data;
  assert.equal(at(100), undefined);
  assert.deepEqual(at(99), {
    folder: "/data",
    free_bytes: 99,
    total_bytes: 1_000,
    free_percent: 9.9,
  });
  assert.equal(at(0, 0), undefined);
  assert.deepEqual(lowDisk(undefined, "/data", 10), []);
});

type Metrics = Readonly<Record<string, number>>;

/** `silent` names the only series of `sluice_replicas`, next to one in the state `live`. */
const healthy: Metrics = {
  sluice_journal_writable: 1,
  sluice_store_postgres_up: 1,
  sluice_store_redis_up: 1,
  sluice_replicas: 0,
  sluice_gateways_with_other_settings: 0,
  sluice_clock_offset_seconds: -0.2,
  sluice_clock_behind_seconds: 0,
  sluice_damaged_databases: 0,
  sluice_journal_missing: 0,
  sluice_inference_rate_known: 1,
  sluice_tls_expires_timestamp_seconds: Date.UTC(2026, 2, 1) / 1000,
  sluice_tls_reload_failed: 0,
  sluice_fenced_total: 0,
  sluice_inference_unpriced_total: 0,
};
const labelsOf: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  sluice_replicas: { state: "silent" },
  sluice_inference_unpriced_total: { network: "n", missing: "rate" },
};

function reader(values: Metrics): Pick<RunningGateway, "metric"> {
  const metric: RunningGateway["metric"] = (name) => {
    const value = values[name];
    if (value === undefined) return [];
    const live = name === "sluice_replicas" ? [{ labels: { state: "live" }, value: 3 }] : [];
    return [...live, { labels: labelsOf[name] ?? {}, value }];
  };
  return { metric };
}

const start = Date.UTC(2026, 0, 15, 12);
const quarter = 900_000;

/** Returns the alerts of checks that are a quarter of an hour apart, as `type` and `data`. */
function alerts(...checks: readonly Metrics[]): [string, object][] {
  const problems = new Problems();
  const watch = new MetricWatch();
  return checks.flatMap((changed, at) => {
    const gateway = reader({ ...healthy, ...changed });
    const now = start + at * quarter;
    return [
      ...problems.update("state", watch.states(gateway, now), now),
      ...problems.update("event", watch.events(gateway), now),
    ].map(({ type, data }): [string, object] => [type, data]);
  });
}

const day = 86_400;
const soon = start / 1000 + 9 * day;
const states = [
  [{ sluice_journal_writable: 0 }, "journal.failed", "journal.recovered", {}],
  [{ sluice_store_postgres_up: 0 }, "database.down", "database.recovered", {}],
  [{ sluice_store_redis_up: 0 }, "redis.down", "redis.recovered", {}],
  [{ sluice_replicas: 2 }, "gateways.silent", "gateways.returned", { gateways: 2 }],
  [
    { sluice_gateways_with_other_settings: 1 },
    "settings.differ",
    "settings.equal",
    { gateways: 1 },
  ],
  [{ sluice_clock_offset_seconds: -3 }, "clock.wrong", "clock.recovered", { offset_seconds: -3 }],
  [{ sluice_clock_behind_seconds: 90 }, "clock.wrong", "clock.recovered", { behind_seconds: 90 }],
  [{ sluice_damaged_databases: 2 }, "database.damaged", "database.repaired", { count: 2 }],
  [{ sluice_journal_missing: 1 }, "journal.missing", "journal.found", { count: 1 }],
  [{ sluice_inference_rate_known: 0 }, "rate.unknown", "rate.known", {}],
  [
    { sluice_tls_expires_timestamp_seconds: soon },
    "certificate.invalid",
    "certificate.recovered",
    { reason: "expires soon", expires_at: new Date(soon * 1000).toISOString() },
  ],
  [
    { sluice_tls_expires_timestamp_seconds: start / 1000 },
    "certificate.invalid",
    "certificate.recovered",
    { reason: "expired", expires_at: new Date(start).toISOString() },
  ],
  [
    { sluice_tls_reload_failed: 1 },
    "certificate.invalid",
    "certificate.recovered",
    { reason: "refused" },
  ],
] as const;

for (const [changed, raised, resolved, data] of states) {
  test(`${raised} ${JSON.stringify(changed)} is reported once, and its end once`, () => {
    const [first, second, ...others] = alerts({}, changed, changed, changed, {}, {});
    assert.deepEqual(first, [raised, data]);
    assert.deepEqual(second, [resolved, {}]);
    assert.deepEqual(others, []);
  });
}

test("settings that differ for less than a quarter of an hour, as in a rollout, are not reported", () => {
  assert.deepEqual(alerts({}, { sluice_gateways_with_other_settings: 1 }, {}), []);
});

for (const [metric, type, data] of [
  ["sluice_fenced_total", "gateway.fenced", {}],
  ["sluice_inference_unpriced_total", "chat.unpriced", { network: "n", missing: "rate" }],
] as const) {
  test(`${type} is reported each time the counter rises, and has no end`, () => {
    const counted = (value: number): Metrics => ({ [metric]: value });
    const found = alerts(counted(0), counted(1), counted(1), counted(3), counted(3));
    assert.deepEqual(found, [
      [type, data],
      [type, data],
    ]);
  });
}

test("the rate of one network is unknown while that of another is known", () => {
  const metric: RunningGateway["metric"] = (name) =>
    name === "sluice_inference_rate_known"
      ? [1, 0].map((value, at) => ({ labels: { network: `network-${at}` }, value }))
      : [];
  const found = new MetricWatch().states({ metric }, start);
  assert.deepEqual(
    found.map(({ raised }) => raised.type),
    ["rate.unknown"],
  );
});

test("a gateway without a database, TLS and networks has no problems", () => {
  const watch = new MetricWatch();
  const none = { metric: () => [] };
  assert.deepEqual([...watch.states(none, start), ...watch.events(none)], []);
});
