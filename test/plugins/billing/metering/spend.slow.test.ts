import assert from "node:assert/strict";
import { copyFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import * as fc from "fast-check";
import { spendMembers, type Spend, type SpendMember } from "sluice-gateway/services";
import { readUsage, type UsageRow } from "../../../../plugins/billing/metering/read-usage.ts";
import {
  spendAnswer,
  type SpendJob,
} from "../../../../plugins/billing/metering/spend/spend-report.ts";
import { openComputePool } from "../../../../src/compute/pool.ts";
import { createMetrics } from "../../../../src/metrics.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { about, agentOf, day, meterFixture, principalOf } from "./fixture.ts";

function spendOf(job: Omit<SpendJob, "limit">): Spend {
  const answer = spendAnswer({ ...job, limit: 1_000, wantsHours: true });
  if (answer.kind !== "done") throw new Error(`${answer.kind} instead of done`);
  return answer.spend;
}

function nameIn(row: UsageRow, by: SpendMember): string | undefined {
  const tool = row.surface === "mcp" ? row.method : undefined;
  const { workspaceId: workspace, keyId: key, model, method, route } = row;
  return { workspace, key, model, tool, method, route, tag: row.agent?.name }[by];
}

/** Adds up the charges of the journal one by one. */
function addedUp(dataDir: string, { from, to, by, workspaceId }: Omit<SpendJob, "limit">): object {
  const sums = new Map<string | undefined, number>();
  const stepMs = to - from <= 2 * day ? 3_600_000 : day;
  const steps = Array<number>((to - from) / stepMs).fill(0);
  for (const row of readUsage(dataDir, { from, to })) {
    if (workspaceId !== undefined && row.workspaceId !== workspaceId) continue;
    const name = nameIn(row, by);
    sums.set(name, (sums.get(name) ?? 0) + row.usedMilliCu);
    const place = Math.floor((row.time - from) / stepMs);
    steps[place] = (steps[place] ?? 0) + row.usedMilliCu;
  }
  return { sums, stepMs, steps };
}

const start = Date.UTC(2026, 0, 15);
const charges = fc.array(
  fc.record({
    days: fc.integer({ min: 0, max: 40 }),
    minutes: fc.integer({ min: 0, max: 1_439 }),
    workspace: fc.constantFrom("ws_1", "ws_2"),
    key: fc.constantFrom("key_1", "key_2", "key_3"),
    surface: fc.constantFrom("mcp", "ledger-rpc"),
    method: fc.constantFrom("m_1", "m_2"),
    model: fc.constantFrom(undefined, "A/b"),
    route: fc.constantFrom(undefined, "/a", "/b/*"),
    agent: fc.constantFrom(undefined, "Planner", "Wörker\n"),
    costMilliCu: fc.integer({ min: 0, max: 5_000 }),
  }),
  { minLength: 1, maxLength: 12 },
);

test("the spend of random ranges is the sum of the charges in the journal, to the milli-CU", async (t) => {
  const ranges = fc.record({
    first: fc.integer({ min: -20, max: 200 }),
    days: fc.oneof(fc.integer({ min: 1, max: 2 }), fc.integer({ min: 1, max: 150 })),
    by: fc.constantFrom(...spendMembers),
    workspaceId: fc.constantFrom(undefined, "ws_1", "ws_2", "ws_unknown"),
  });
  await fc.assert(
    fc.asyncProperty(
      charges,
      fc.array(ranges, { minLength: 1, maxLength: 4 }),
      async (all, some) => {
        const { dataDir, clock, open } = meterFixture(t);
        const meter = await open();
        clock.advance(start - clock.now() + 10 * day);
        for (const each of all) {
          clock.advance(each.days * day + each.minutes * 60_000);
          const principal = principalOf({
            key: { id: each.key },
            workspace: { id: each.workspace },
            plan: { includedMilliCu: 10_000, overageUsdPerCu: "0.001" },
          });
          const agent = each.agent === undefined ? undefined : agentOf(each.agent);
          const taken = meter.reserve(principal, 5_000, { ...about, agent, route: each.route });
          if (taken.kind !== "reserved") continue;
          const { surface, method, model, costMilliCu } = each;
          await taken.settle([{ surface, method, costMilliCu, ...(model && { model }) }]);
        }
        // The sums are also right if the charges are added to them in several turns.
        const job = {
          dataDir,
          workspaceId: undefined,
          by: "key",
          from: start,
          to: start + day,
        } as const;
        spendAnswer({ ...job, limit: 1 }, { turnMs: 0, charges: 3, hourlyCharges: 1 });
        for (const { first, days, by, workspaceId } of some) {
          const from = start + first * day;
          const query = { dataDir, workspaceId, by, from, to: from + days * day };
          const spend = spendOf(query);
          const sums = new Map(spend.groups.map(({ name, usedMilliCu }) => [name, usedMilliCu]));
          const { stepMs, steps } = spend;
          assert.deepEqual({ sums, stepMs, steps }, addedUp(dataDir, query));
          for (const [place, values] of spend.series.entries()) {
            const sum = values.reduce((one, other) => one + other, 0);
            assert.equal(sum, spend.groups[place]?.usedMilliCu);
          }
        }
        await meter.close();
      },
    ),
    { numRuns: 10 },
  );
});

test("sums of a journal that was replaced by an older copy start from the beginning", async (t) => {
  const fixture = meterFixture(t);
  const charge = async (meter: Awaited<ReturnType<typeof fixture.open>>): Promise<void> => {
    const taken = meter.reserve(principalOf(), 10, about);
    assert.equal(taken.kind, "reserved");
    if (taken.kind === "reserved") {
      await taken.settle([{ surface: "mcp", method: "m", costMilliCu: 10 }]);
    }
  };
  const meter = await fixture.open();
  await charge(meter);
  const older = fixture.crashed();
  await charge(meter);
  await meter.close();
  const from = Math.floor(fixture.clock.now() / day) * day;
  const used = (dataDir: string): number =>
    spendOf({ dataDir, workspaceId: undefined, by: "tool", from, to: from + day }).total
      .usedMilliCu;
  assert.equal(used(fixture.dataDir), 20);
  copyFileSync(join(fixture.dataDir, "spend.db"), join(older.dataDir, "spend.db"));
  assert.equal(used(older.dataDir), 10);
});

test("a long past is added up in several turns", async (t) => {
  const { dataDir, open } = meterFixture(t);
  const meter = await open();
  for (let round = 0; round < 4; round++) {
    const taken = meter.reserve(principalOf(), 1, about);
    assert.equal(taken.kind, "reserved");
    if (taken.kind !== "reserved") continue;
    await taken.settle([{ surface: "mcp", method: "m", costMilliCu: 1 }]);
  }
  const from = Date.UTC(2026, 0, 15);
  const job = { dataDir, workspaceId: undefined, by: "tool", from, to: from + day } as const;
  const turns = Array.from(
    { length: 3 },
    () => spendAnswer({ ...job, limit: 1 }, { turnMs: 0, charges: 2, hourlyCharges: 1 }).kind,
  );
  assert.deepEqual(turns, ["building", "building", "done"]);
  assert.equal(spendOf(job).total.calls, 4);
});

test("without a journal, nothing was spent", (t) => {
  const { dataDir } = meterFixture(t);
  const from = Date.UTC(2026, 0, 15);
  const job = { dataDir, workspaceId: undefined, by: "key", from } as const;
  const spend = spendOf({ ...job, to: from + 3 * day });
  assert.deepEqual([spend.total.calls, spend.groups, spend.steps], [0, [], [0, 0, 0]]);
  const { stepMs, steps } = spendOf({ ...job, to: from + 2 * day });
  assert.deepEqual([stepMs, steps], [3_600_000, Array(48).fill(0)]);
});

test("a range of two days has days if it has many charges of any workspace", async (t) => {
  const { dataDir, clock, open } = meterFixture(t);
  const meter = await open();
  for (const id of ["ws_1", "ws_1", "ws_2"]) {
    const taken = meter.reserve(principalOf({ workspace: { id } }), 10, about);
    assert.equal(taken.kind, "reserved");
    if (taken.kind === "reserved") {
      await taken.settle([{ surface: "mcp", method: "m", costMilliCu: 10 }]);
    }
  }
  const from = Math.floor(clock.now() / day) * day;
  const job = { dataDir, workspaceId: "ws_2", by: "tool", from, to: from + 2 * day } as const;
  const read = (hourlyCharges: number): unknown => {
    const limits = { turnMs: 5_000, charges: 10, hourlyCharges };
    const answer = spendAnswer({ ...job, limit: 1, wantsHours: true }, limits);
    return answer.kind === "done" && [answer.spend.stepMs, answer.spend.steps.length];
  };
  assert.deepEqual(read(2), [day, 2]);
  assert.deepEqual(read(3), [3_600_000, 48]);
});

test("the report is a job of the thread pool, and fails with a StoreError if spend.db is damaged", async (t) => {
  const { dataDir, open } = meterFixture(t);
  await open();
  const pool = openComputePool({ clock: manualClock(0), metrics: createMetrics() });
  t.after(() => pool.close());
  const module = new URL(
    "../../../../plugins/billing/metering/spend/spend-report.ts",
    import.meta.url,
  ).href;
  const from = Date.UTC(2026, 0, 15);
  const input: SpendJob = {
    dataDir,
    workspaceId: undefined,
    by: "model",
    from,
    to: from + day,
    limit: 1,
  };
  const done = await pool.run({ module, input, transfer: [] });
  assert.ok(done.ok);
  const answer: unknown = JSON.parse(new TextDecoder().decode(done.bytes));
  assert.deepEqual(answer, spendAnswer(input));
  for (const end of ["-wal", "-shm"]) rmSync(join(dataDir, `spend.db${end}`), { force: true });
  writeFileSync(join(dataDir, "spend.db"), "not a database");
  assert.throws(() => spendAnswer(input), { code: /^SLUICE_STORE/ });
});
