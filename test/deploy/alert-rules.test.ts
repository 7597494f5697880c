/** Runs the alert rules of deploy/grafana on made-up metrics with promtool: each rule fires once, and only for its cause. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { parse, stringify } from "yaml";
import { skipWithout } from "../skip-without.ts";
import { temporaryFolder } from "../store/folder.ts";

const file = join(import.meta.dirname, "../../deploy/grafana/alerts.yaml");
const { groups } = parse(readFileSync(file, "utf8")) as {
  groups: { rules: { alert: string }[] }[];
};
const target = 'instance="gw:9090",job="sluice"';

/** Values per minute in promtool's notation: `0+1x60` rises by one per minute. */
type Series = Readonly<Record<string, string>>;

/** The series of a gateway without problems. Those of a case replace them. */
const healthy: Series = {
  up: "1x60",
  sluice_build_info: "1x60",
  sluice_journal_writable: "1x60",
  sluice_lost_cu_milli_total: "0x60",
  'sluice_journal_commit_seconds_bucket{le="0.1"}': "0+10x60",
  'sluice_journal_commit_seconds_bucket{le="0.5"}': "0+10x60",
  'sluice_journal_commit_seconds_bucket{le="+Inf"}': "0+10x60",
  sluice_store_postgres_up: "1x60",
  sluice_store_redis_up: "1x60",
  'sluice_replicas{state="live"}': "2x60",
  'sluice_replicas{state="silent"}': "0x60",
  sluice_fenced_total: "0x60",
  sluice_gateways_with_other_settings: "0x60",
  sluice_clock_offset_seconds: "0.1x60",
  sluice_clock_behind_seconds: "0x60",
  sluice_redated_commits_total: "0x60",
  sluice_damaged_databases: "0x60",
  sluice_journal_missing: "0x60",
  'sluice_inference_rate_known{network="n"}': "1x60",
  sluice_tls_expires_timestamp_seconds: "7776000x60",
  sluice_tls_reload_failed: "0x60",
  'sluice_inference_unpriced_total{network="n",missing="rate"}': "0x60",
  'sluice_backend_up{kind="network",backend="network n"}': "1x60",
  'sluice_backend_servers{kind="network",backend="network n",state="active"}': "2x60",
  // The node of a default address that nobody configured.
  'sluice_ledger_node_up{upstream="ledger",node="127.0.0.1:9944"}': "0x60",
  'sluice_head_differs{upstream="ledger",node="127.0.0.1:9944"}': "0x60",
  'sluice_head_proved_timestamp_seconds{upstream="ledger"}': "0+60x60",
  sluice_reload_failed: "0x60",
  'sluice_requests_total{route="/x",status="2xx"}': "0+60x60",
  'sluice_requests_total{route="/x",status="5xx"}': "0+1x60",
  'sluice_request_seconds_bucket{le="30"}': "0+60x60",
  'sluice_request_seconds_bucket{le="60"}': "0+60x60",
  'sluice_request_seconds_bucket{le="+Inf"}': "0+60x60",
  'sluice_step_blocks_total{route="/x",step="slow"}': "3x60",
  sluice_connections_refused_total: "5x60",
  sluice_usage_export_stopped: "0x60",
  sluice_usage_export_lag_seconds: "1x60",
};

/** The difference to a healthy gateway when an alert fires. */
const causes: Readonly<Record<string, readonly Series[]>> = {
  SluiceDown: [{ up: "1x20 0x40", sluice_build_info: "1x20 _x40" }],
  SluiceJournalNotWritable: [{ sluice_journal_writable: "0x60" }],
  SluiceChargesLost: [{ sluice_lost_cu_milli_total: "0x50 500x10" }],
  SluiceJournalSlow: [{ 'sluice_journal_commit_seconds_bucket{le="0.1"}': "0x60" }],
  SluicePostgresDown: [{ sluice_store_postgres_up: "0x60" }],
  SluiceRedisDown: [{ sluice_store_redis_up: "0x60" }],
  SluiceGatewaySilent: [{ 'sluice_replicas{state="silent"}': "1x60" }],
  SluiceFenced: [{ sluice_fenced_total: "0x50 1x10" }],
  SluiceSettingsDiffer: [{ sluice_gateways_with_other_settings: "1x60" }],
  SluiceClockOff: [
    { sluice_clock_offset_seconds: "-3x60" },
    { sluice_clock_offset_seconds: "3x60" },
  ],
  SluiceClockBehind: [{ sluice_clock_behind_seconds: "3600x60" }],
  SluiceChargesRedated: [{ sluice_redated_commits_total: "0x50 1x10" }],
  SluiceDatabaseDamaged: [{ sluice_damaged_databases: "1x60" }],
  SluiceJournalMissing: [{ sluice_journal_missing: "1x60" }],
  SluiceRateUnknown: [{ 'sluice_inference_rate_known{network="n"}': "0x60" }],
  SluiceCertificateExpiresSoon: [{ sluice_tls_expires_timestamp_seconds: "800000x60" }],
  SluiceCertificateExpired: [{ sluice_tls_expires_timestamp_seconds: "60x60" }],
  SluiceCertificateRefused: [{ sluice_tls_reload_failed: "1x60" }],
  SluiceChatUnpriced: [
    { 'sluice_inference_unpriced_total{network="n",missing="rate"}': "0x50 1x10" },
  ],
  SluiceNoUsableBackend: [
    {
      'sluice_backend_up{kind="network",backend="network n"}': "0x60",
      'sluice_backend_servers{kind="network",backend="network n",state="active"}': "_x60",
    },
    { 'sluice_backend_up{kind="ledger",backend="upstream ledger"}': "0x60" },
  ],
  SluiceNodeDown: [{ 'sluice_ledger_node_up{upstream="ledger",node="10.0.0.7:9944"}': "1x60" }],
  SluiceHeadDiffers: [
    { 'sluice_head_differs{upstream="ledger",node="127.0.0.1:9944"}': "1x60" },
    {
      'sluice_backend_up{kind="head",backend="finalized head of ledger"}': "0x60",
      'sluice_head_differs{upstream="ledger",node="10.0.0.7:9944"}': "1x60",
    },
  ],
  SluiceHeadNotProved: [
    { 'sluice_head_proved_timestamp_seconds{upstream="ledger"}': "0+60x40 2400x20" },
  ],
  SluiceReloadFailed: [{ sluice_reload_failed: "1x60" }],
  SluiceServerErrors: [{ 'sluice_requests_total{route="/x",status="5xx"}': "0+60x60" }],
  SluiceRequestsSlow: [{ 'sluice_request_seconds_bucket{le="30"}': "0x60" }],
  SluicePluginBlocks: [{ 'sluice_step_blocks_total{route="/x",step="slow"}': "3x58 4x2" }],
  SluiceConnectionsRefused: [{ sluice_connections_refused_total: "5x58 6x2" }],
  SluiceUsageExportStopped: [
    { sluice_usage_export_stopped: "1x60" },
    { sluice_usage_export_lag_seconds: "901x60" },
  ],
};

/** Returns a group of promtool's file that expects exactly these alerts after an hour. */
function group(series: Series, alerts: readonly string[]): object {
  const all = Object.entries({ ...healthy, ...series });
  return {
    interval: "1m",
    input_series: all.map(([name, values]) => ({
      series: name.endsWith("}") ? `${name.slice(0, -1)},${target}}` : `${name}{${target}}`,
      values,
    })),
    promql_expr_test: [
      {
        expr: 'count by (alertname) (ALERTS{alertstate="firing"})',
        eval_time: "1h",
        exp_samples: alerts.map((alert) => ({ labels: `{alertname="${alert}"}`, value: 1 })),
      },
    ],
  };
}

function runPromtool(t: TestContext, groupsOfTests: readonly object[]): string {
  const tests = join(temporaryFolder(t), "tests.yaml");
  const content = { rule_files: [file], evaluation_interval: "1m", tests: groupsOfTests };
  writeFileSync(tests, stringify(content));
  const { status, stdout, stderr } = spawnSync("promtool", ["test", "rules", tests], {
    encoding: "utf8",
  });
  return status === 0 ? "" : stdout + stderr;
}

const hasPromtool = spawnSync("promtool", ["--version"]).error === undefined;
const skip = skipWithout("promtool", hasPromtool);

test("every alert rule has a cause that makes it fire", () => {
  const alerts = groups.flatMap(({ rules }) => rules.map(({ alert }) => alert));
  assert.deepEqual(Object.keys(causes).toSorted(), alerts.toSorted());
});

test(
  "no alert fires for a gateway without problems, and none for a default address",
  { skip },
  (t) => {
    assert.equal(runPromtool(t, [group({}, [])]), "");
  },
);

test("each alert fires for its causes, and no other alert fires", { skip }, (t) => {
  const all = Object.entries(causes).flatMap(([alert, each]) =>
    each.map((series) => group(series, [alert])),
  );
  assert.equal(runPromtool(t, all), "");
});
