import assert from "node:assert/strict";
import { test } from "node:test";
import { openComputePool } from "../../../../src/compute/pool.ts";
import { createMetrics } from "../../../../src/metrics.ts";
import {
  usageSeries,
  type UsageSeriesJob,
} from "../../../../plugins/billing/metering/usage-series.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { meterFixture, noon, principalOf, take } from "./fixture.ts";

const minute = 60_000;

function job(dataDir: string, more: Partial<UsageSeriesJob> = {}): UsageSeriesJob {
  return { dataDir, workspaceId: undefined, from: noon, stepMs: minute, steps: 3, ...more };
}

test("each charge is added to the step of its time, by surface, workspace and key", async (t) => {
  const { dataDir, clock, open } = meterFixture(t);
  const meter = await open();
  const charge = (key: string, workspace: string, surface: string, costMilliCu: number) =>
    take(
      meter,
      principalOf({ key: { id: key }, workspace: { id: workspace } }),
      costMilliCu,
    ).settle([{ surface, method: "m", costMilliCu }]);
  await charge("key_a", "ws_1", "chat", 10);
  await charge("key_b", "ws_1", "ledger-rpc", 1);
  clock.advance(minute);
  await charge("key_c", "ws_2", "chat", 200);
  clock.advance(minute + 59_999);
  await charge("key_a", "ws_1", "chat", 5);
  clock.advance(1);
  await charge("key_a", "ws_1", "chat", 7_000);

  const all = usageSeries(job(dataDir));
  assert.equal(all.calls, 4);
  assert.equal(all.usedMilliCu, 216);
  assert.deepEqual(all.surfaces, [
    { name: "chat", calls: 3, usedMilliCu: 215, values: [10, 200, 5] },
    { name: "ledger-rpc", calls: 1, usedMilliCu: 1, values: [1, 0, 0] },
  ]);
  assert.deepEqual(
    all.workspaces.map(({ name, values }) => [name, values]),
    [
      ["ws_2", [0, 200, 0]],
      ["ws_1", [11, 0, 5]],
    ],
  );
  assert.deepEqual(
    all.keys.map(({ name, usedMilliCu }) => [name, usedMilliCu]),
    [
      ["key_c", 200],
      ["key_a", 15],
      ["key_b", 1],
    ],
  );

  const own = usageSeries(job(dataDir, { workspaceId: "ws_2" }));
  assert.deepEqual(
    own.workspaces.map(({ name }) => name),
    ["ws_2"],
  );
  assert.deepEqual(
    own.keys.map(({ name }) => name),
    ["key_c"],
  );
  assert.equal(own.usedMilliCu, 200);
});

test("the smallest series are added up in a series without a name", async (t) => {
  const { dataDir, open } = meterFixture(t);
  const meter = await open();
  for (let i = 1; i <= 9; i++) {
    await take(meter, principalOf({ key: { id: `key_${i}` } }), i).settle([
      { surface: `s${i}`, method: "m", costMilliCu: i },
    ]);
  }
  const { surfaces, usedMilliCu } = usageSeries(job(dataDir));
  assert.equal(surfaces.length, 7);
  assert.deepEqual(surfaces.at(0)?.name, "s9");
  assert.deepEqual(surfaces.at(-1), {
    name: undefined,
    calls: 3,
    usedMilliCu: 6,
    values: [6, 0, 0],
  });
  assert.equal(usedMilliCu, 45);
});

test("without charges there are no series, even if the journal or the workspace does not exist", async (t) => {
  const none = { calls: 0, usedMilliCu: 0, surfaces: [], workspaces: [], keys: [] };
  const { dataDir, open } = meterFixture(t);
  assert.deepEqual(usageSeries(job(`${dataDir}/none`)), none);
  await open();
  assert.deepEqual(usageSeries(job(dataDir)), none);
  assert.deepEqual(usageSeries(job(dataDir, { workspaceId: "ws_none" })), none);
});

test("a thread of the pool returns the same series as JSON", async (t) => {
  const { dataDir, open } = meterFixture(t);
  const meter = await open();
  await take(meter, principalOf(), 3).settle([{ surface: "chat", method: "m", costMilliCu: 3 }]);
  const pool = openComputePool({ clock: manualClock(), metrics: createMetrics(), threads: 1 });
  t.after(() => pool.close());
  const { href } = new URL("../../../../plugins/billing/metering/usage-series.ts", import.meta.url);
  const done = await pool.run({ module: href, input: job(dataDir), transfer: [] });
  assert.ok(done.ok);
  assert.deepEqual(JSON.parse(new TextDecoder().decode(done.bytes)), usageSeries(job(dataDir)));
  assert.equal(usageSeries(job(dataDir)).usedMilliCu, 3);
});
