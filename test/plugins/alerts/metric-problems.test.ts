/** Tests of the algorithm that finds problems in the metrics of a gateway: each is reported once, and its end once. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { MetricWatch } from "../../../plugins/alerts/alerts/metric-problems.ts";
import { Problems } from "../../../plugins/alerts/alerts/problems.ts";
import type { RunningGateway } from "../../../src/plugin.ts";

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

test("a gateway without a database, TLS and networks has no problems", () => {
  const watch = new MetricWatch();
  const none = { metric: () => [] };
  assert.deepEqual([...watch.states(none, start), ...watch.events(none)], []);
});
