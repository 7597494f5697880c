import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { test } from "node:test";
import { openComputePool } from "../../../../src/compute/pool.ts";
import { chargesPath } from "../../../../plugins/billing/metering/journal-schema.ts";
import { maxGroups } from "../../../../plugins/billing/metering/usage/report.ts";
import {
  makeReport,
  type ReportJob,
} from "../../../../plugins/billing/metering/usage/folder-charges.ts";
import { createMetrics } from "../../../../src/base/metrics.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { charge, line, meterFixture, principalOf, take } from "./fixture.ts";

const report = {
  workspaceId: "ws_1",
  from: Date.UTC(2026, 0),
  to: Date.UTC(2026, 1),
  groupBy: ["method"],
} as const;

test("a job of the pool returns the same report, and a job that cannot read the journal fails alone", async (t) => {
  const { dataDir, open } = meterFixture(t);
  await charge(await open(), principalOf(), 1);
  const pool = openComputePool({ clock: manualClock(), metrics: createMetrics(), threads: 1 });
  t.after(() => pool.close());
  const { href } = new URL(
    "../../../../plugins/billing/metering/usage/folder-charges.ts",
    import.meta.url,
  );
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
    const lines = Array.from({ length: perCommit }, (_, i) => ({
      ...line(0),
      method: `m${n + i}`,
    }));
    await take(meter, principalOf(), 0).settle(lines);
  }
  assert.equal(await makeReport({ dataDir, report }), undefined);
  const coarse = { ...report, groupBy: ["surface"] } as const;
  assert.ok((await makeReport({ dataDir, report: coarse }))?.includes('"ledger-rpc"'));
});
