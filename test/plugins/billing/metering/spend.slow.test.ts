import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import {
  spendMembers,
  type Spend,
  type SpendMember,
  type SpendQuery,
} from "sluice-gateway/services";
import type { UsageRow } from "../../../../plugins/billing/metering/charge-text.ts";
import { readUsage } from "../../../../plugins/billing/metering/read-usage.ts";
import { makeReport } from "../../../../plugins/billing/metering/usage/folder-charges.ts";
import { about, agentOf, day, meterFixture, principalOf } from "./fixture.ts";

type Query = Omit<SpendQuery, "limit" | "wantsHours"> & { readonly dataDir: string };

async function spendOf({ dataDir, ...query }: Query): Promise<Spend> {
  const made = await makeReport({ dataDir, spend: { ...query, limit: 1_000, wantsHours: true } });
  // A spend report is never too large.
  return JSON.parse(made ?? "") as Spend;
}

function nameIn(row: UsageRow, by: SpendMember): string | undefined {
  const tool = row.surface === "mcp" ? row.method : undefined;
  const { workspaceId: workspace, keyId: key, model, method, route } = row;
  return { workspace, key, model, tool, method, route, tag: row.agent?.name }[by];
}

/** Adds up the charges of the journal one by one. */
function addedUp(dataDir: string, { from, to, by, workspaceId }: Query): object {
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
        for (const { first, days, by, workspaceId } of some) {
          const from = start + first * day;
          const query = { dataDir, workspaceId, by, from, to: from + days * day };
          const spend = await spendOf(query);
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
