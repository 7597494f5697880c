import assert from "node:assert/strict";
import { placesPerCommit } from "../../../../plugins/billing/metering/charge-number.ts";
import { test, type TestContext } from "node:test";
import { readBatch, type Batch } from "../../../../plugins/billing/shipping/batch.ts";
import { systemClock } from "../../../../src/clock.ts";
import { openComputePool } from "../../../../src/compute/pool.ts";
import { createMetrics } from "../../../../src/metrics.ts";
import { charge, meterFixture, noon, principalOf, take } from "../metering/fixture.ts";

const { href: module } = new URL("../../../../plugins/billing/shipping/batch.ts", import.meta.url);

/** Returns a function that reads the next batch in a thread, as the copy does. */
function reader(t: TestContext, dataDir: string): (after: number) => Promise<Batch | undefined> {
  const pool = openComputePool({ clock: systemClock, metrics: createMetrics(), threads: 1 });
  t.after(() => pool.close());
  return async (after) => {
    const done = await pool.run({ module, input: { dataDir, after }, transfer: [] });
    assert.ok(done.ok);
    return done.bytes && readBatch(done.bytes);
  };
}

test("a batch has the charges of the commits after the last one that was posted", async (t) => {
  const { open, dataDir } = meterFixture(t);
  const meter = await open();
  const read = reader(t, dataDir);
  assert.equal(await read(0), undefined);
  await charge(meter, principalOf(), 1);
  await charge(meter, principalOf(), 2);
  const batch = await read(1);
  assert.ok(batch);
  const { first, last, count, since, more } = batch;
  assert.deepEqual(
    { first, last, count, since, more },
    { first: 2, last: 2, count: 1, since: noon, more: false },
  );
  const [row, ...others] = JSON.parse(batch.rows.toString()) as Record<string, unknown>[];
  assert.deepEqual(others, []);
  assert.equal(Math.floor(Number(row?.["seq"]) / placesPerCommit), 2);
  assert.equal(row?.["included_cu_milli"], 2);
  assert.equal(await read(2), undefined);
});

test("a commit without charges is posted too, because the database counts commits", async (t) => {
  const { open, dataDir } = meterFixture(t);
  const meter = await open();
  const reservation = take(meter, principalOf(), 5, { streamed: true });
  await meter.flush();
  const batch = await reader(t, dataDir)(0);
  assert.deepEqual([batch?.first, batch?.count, batch?.since], [1, 0, undefined]);
  assert.equal(batch?.rows.toString(), "[]");
  reservation.release();
});

test("a batch ends at its limit, and the next one continues with the next commit", async (t) => {
  const { open, dataDir } = meterFixture(t);
  const meter = await open();
  const principal = principalOf({ plan: { overageUsdPerCu: "0.001" } });
  for (let round = 0; round < 15; round++) {
    await Promise.all(Array.from({ length: 100 }, () => charge(meter, principal, 1)));
  }
  const read = reader(t, dataDir);
  const one = await read(0);
  assert.equal(one?.more, true);
  const two = await read(one.last);
  assert.deepEqual([two?.first, two?.more], [one.last + 1, false]);
  assert.equal(one.count + (two?.count ?? 0), 1_500);
});
