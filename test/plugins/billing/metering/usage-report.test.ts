import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { test } from "node:test";
import type { ChargeLine, UsageMember, UsageRange } from "sluice-gateway/services";
import { openComputePool } from "../../../../src/compute/pool.ts";
import { chargesPath } from "../../../../plugins/billing/metering/journal-schema.ts";
import type { MeterService } from "../../../../plugins/billing/metering/meter.ts";
import { readUsage } from "../../../../plugins/billing/metering/read-usage.ts";
import { maxGroups } from "../../../../plugins/billing/metering/usage/report.ts";
import {
  makeReport,
  type ReportJob,
} from "../../../../plugins/billing/metering/usage/folder-charges.ts";
import { createMetrics } from "../../../../src/base/metrics.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { day, hour, meterFixture, minute, noon, principalOf, take } from "./fixture.ts";

interface Report {
  readonly workspace_id: string;
  readonly from: string;
  readonly to: string;
  readonly used_cu_milli: number;
  readonly groups: readonly Readonly<Record<string, unknown>>[];
}

const month = { from: Date.UTC(2026, 0), to: Date.UTC(2026, 1) };

async function reportOf(dataDir: string, more: Partial<UsageRange> = {}): Promise<Report> {
  const report = { workspaceId: "ws_1", ...month, groupBy: [], ...more };
  const json = await makeReport({ dataDir, report });
  // These tests check the shape.
  return JSON.parse(json ?? "null") as Report;
}

function settle(
  meter: MeterService,
  key: string,
  lines: readonly ChargeLine[],
  workspace = "ws_1",
): Promise<void> {
  const plan = { includedMilliCu: 1e12 };
  const principal = principalOf({ key: { id: key }, workspace: { id: workspace }, plan });
  const total = lines.reduce((sum, { costMilliCu }) => sum + costMilliCu, 0);
  return take(meter, principal, total).settle(lines);
}

const call = { surface: "ledger-rpc", method: "system_chain", costMilliCu: 100 };
const chat = {
  surface: "chat",
  method: "chat.completions",
  model: "Acme/One",
  costMilliCu: 7,
  inputTokens: 30,
  outputTokens: 4,
};

async function someUsage(t: Parameters<typeof meterFixture>[0]): Promise<string> {
  const { dataDir, clock, open } = meterFixture(t);
  const meter = await open();
  await settle(meter, "key_a", [call, call]);
  await settle(meter, "key_b", [chat]);
  await settle(meter, "key_x", [{ ...call, costMilliCu: 5_000 }], "ws_other");
  clock.advance(day);
  await settle(meter, "key_b", [call, { ...chat, costMilliCu: 3 }]);
  return dataDir;
}

test("a report of any range is the sum of its charges, in whole hours and in the rest", async (t) => {
  const { dataDir, clock, open } = meterFixture(t);
  const meter = await open();
  for (let n = 0; n < 40; n++) {
    await settle(meter, "key_a", [{ ...call, costMilliCu: n + 1 }, chat]);
    clock.advance(11 * minute + n);
  }
  const rows = [...readUsage(dataDir)];
  const times = [...new Set(rows.map(({ time }) => time))];
  const ends = [noon - 1, ...times, noon + hour, noon + 2 * hour, noon + 2 * hour + 1, noon + day];
  for (const [place, from] of ends.entries()) {
    const to = ends[(place * 7 + 11) % ends.length] ?? 0;
    const within = rows.filter(({ time }) => time >= from && time < to);
    const used = within.reduce((sum, { usedMilliCu }) => sum + usedMilliCu, 0);
    const report = await reportOf(dataDir, { from, to, groupBy: ["model", "day"] });
    assert.equal(report.used_cu_milli, used, `${from - noon} to ${to - noon}`);
    const calls = report.groups.reduce((sum, group) => sum + Number(group["calls"]), 0);
    assert.equal(calls, within.length);
  }
});

test("the groups of every division add up to the charges of the export", async (t) => {
  const dataDir = await someUsage(t);
  const rows = [...readUsage(dataDir)].filter(({ workspaceId }) => workspaceId === "ws_1");
  const total = rows.reduce((sum, { usedMilliCu }) => sum + usedMilliCu, 0);
  const members: UsageMember[] = ["key", "surface", "method", "model", "day"];
  for (let mask = 0; mask < 2 ** members.length; mask++) {
    const groupBy = members.filter((_, bit) => (mask & (1 << bit)) !== 0);
    const { groups, used_cu_milli: used } = await reportOf(dataDir, { groupBy });
    const sum = (name: string): number =>
      groups.reduce((all, group) => all + Number(group[name]), 0);
    assert.equal(used, total, groupBy.join());
    assert.equal(sum("used_cu_milli"), total, groupBy.join());
    assert.equal(sum("calls"), rows.length, groupBy.join());
    assert.equal(sum("input_tokens"), 60, groupBy.join());
  }
});

test("without a journal or without charges, the usage is zero", async (t) => {
  const { dataDir } = meterFixture(t);
  assert.equal((await reportOf(dataDir)).used_cu_milli, 0);
  const other = await reportOf(await someUsage(t), { workspaceId: "ws_new" });
  assert.deepEqual([other.used_cu_milli, other.groups], [0, []]);
});

test("a job of the pool returns the same report, and a job that cannot read the journal fails alone", async (t) => {
  const dataDir = await someUsage(t);
  const pool = openComputePool({ clock: manualClock(), metrics: createMetrics(), threads: 1 });
  t.after(() => pool.close());
  const { href } = new URL(
    "../../../../plugins/billing/metering/usage/folder-charges.ts",
    import.meta.url,
  );
  const report = { workspaceId: "ws_1", ...month, groupBy: ["day"] as const };
  const input: ReportJob = { dataDir, report };
  const run = (): ReturnType<typeof pool.run> => pool.run({ module: href, input, transfer: [] });
  const done = await run();
  assert.ok(done.ok && done.bytes !== undefined);
  assert.equal(Buffer.from(done.bytes).toString(), await makeReport(input));
  writeFileSync(chargesPath(dataDir), "not a database".repeat(1_000));
  assert.deepEqual(await run(), { ok: false, reason: "crashed" });
});

test("a report with too many groups is undefined, and a report on fewer members is not", async (t) => {
  const { dataDir, open } = meterFixture(t);
  const meter = await open();
  const perCommit = 200;
  for (let n = 0; n <= maxGroups; n += perCommit) {
    const lines = Array.from({ length: perCommit }, (_, i) => ({ ...call, method: `m${n + i}` }));
    await settle(meter, "key_a", lines);
  }
  const report = { workspaceId: "ws_1", ...month, groupBy: ["method"] as const };
  assert.equal(await makeReport({ dataDir, report }), undefined);
  assert.equal((await reportOf(dataDir, { groupBy: ["surface"] })).groups.length, 1);
});
