/** Tests of the usage reports of the service `metering`, and of the codec of charges on journals that are damaged. */
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
import {
  about,
  agentOf,
  day,
  meterFixture,
  principalOf,
  charge,
  line,
  take,
  type TestMeter,
} from "./fixture.ts";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import {
  chargesPath,
  openChargesDatabase,
} from "../../../../plugins/billing/metering/journal-schema.ts";
import { maxGroups } from "../../../../plugins/billing/metering/usage/report.ts";
import { DatabaseSync } from "node:sqlite";
import { StoreError } from "../../../../src/store/store-error.ts";

type Query = Omit<SpendQuery, "limit" | "wantsHours">;

async function spendOf({ usage }: TestMeter, query: Query): Promise<Spend> {
  const made = await usage.spend({ ...query, limit: 1_000, wantsHours: true });
  assert.ok(made.kind === "done");
  return made.spend;
}

function nameIn(row: UsageRow, by: SpendMember): string | undefined {
  const tool = row.surface === "mcp" ? row.method : undefined;
  const { workspaceId: workspace, keyId: key, model, method, route } = row;
  return { workspace, key, model, tool, method, route, tag: row.agent?.name }[by];
}

function addedUp(rows: readonly UsageRow[], { from, to, by, workspaceId }: Query): object {
  const sums = new Map<string | undefined, number>();
  const stepMs = to - from <= 2 * day ? 3_600_000 : day;
  const steps = Array<number>((to - from) / stepMs).fill(0);
  for (const row of rows) {
    if (row.time < from || row.time >= to) continue;
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
        const { clock, open, rows } = meterFixture(t);
        const meter = await open();
        clock.jump(start - clock.now() + 10 * day);
        for (const each of all) {
          clock.jump(each.days * day + each.minutes * 60_000);
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
          const query = { workspaceId, by, from, to: from + days * day };
          const spend = await spendOf(meter, query);
          const sums = new Map(spend.groups.map(({ name, usedMilliCu }) => [name, usedMilliCu]));
          const { stepMs, steps } = spend;
          assert.deepEqual({ sums, stepMs, steps }, addedUp(rows(), query));
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

const report = {
  workspaceId: "ws_1",
  from: Date.UTC(2026, 0),
  to: Date.UTC(2026, 1),
  groupBy: ["method"],
} as const;

test("a report of a journal that cannot be read is unavailable, and the next one is made", async (t) => {
  const { dataDir, open } = meterFixture(t);
  const { usage, ...meter } = await open();
  await charge(meter, principalOf(), 1);
  const bytes = readFileSync(chargesPath(dataDir));
  writeFileSync(chargesPath(dataDir), "not a database".repeat(1_000));
  assert.deepEqual(await usage.report(report), { kind: "unavailable" });
  writeFileSync(chargesPath(dataDir), bytes);
  assert.equal((await usage.report(report)).kind, "done");
});

test("a report with too many groups is refused, and a report on fewer members is not", async (t) => {
  const { open } = meterFixture(t);
  const meter = await open();
  const perCommit = 200;
  for (let n = 0; n <= maxGroups; n += perCommit) {
    const lines = Array.from({ length: perCommit }, (_, i) => ({
      ...line(0),
      method: `m${n + i}`,
    }));
    await take(meter, principalOf(), 0).settle(lines);
  }
  assert.deepEqual(await meter.usage.report(report), { kind: "tooManyGroups", maxGroups });
  const coarse = await meter.usage.report({ ...report, groupBy: ["surface"] });
  assert.ok(coarse.kind === "done");
  assert.match(Buffer.from(coarse.json).toString(), /"ledger-rpc"/);
});

const storeError = (code: string) => (error: unknown) => {
  assert.ok(error instanceof StoreError, String(error));
  assert.equal(error.code, code);
  assert.notEqual(error.remedy, "");
  return true;
};

test("long and non-ASCII texts are kept, and too long ones are cut", async (t) => {
  const fixture = meterFixture(t);
  const meter = await fixture.open();
  const requestId = `"é,\\ 漢${"x".repeat(300)}`;
  await take(meter, principalOf({ key: { id: "ключ" } }), 1, { requestId }).settle([
    { surface: "s", method: `m"\n${"ß".repeat(400)}`, costMilliCu: 1 },
  ]);
  const [row] = fixture.rows();
  assert.equal(row?.keyId, "ключ");
  assert.equal(row?.requestId, requestId.slice(0, 256));
  assert.equal(row?.method, `m"\n${"ß".repeat(253)}`);
});

test("the pricing of an inference is kept even with the longest ids", async (t) => {
  const fixture = meterFixture(t);
  const meter = await fixture.open();
  const pricing = {
    network: "confidential-classic",
    coefficient: 1500,
    pricePerTokenNano: "12.5",
    tokenUsdRate: undefined,
    asOf: "2026-11-21T00:00:00.000Z",
  };
  const longPrice = `1000000000.${"0".repeat(29)}1`;
  const classes = {
    prompt: longPrice,
    cached: longPrice,
    completion: longPrice,
    reasoning: longPrice,
  };
  const byClass = { ...pricing, pricePerTokenNano: longPrice, tokenUsdRate: longPrice, classes };
  const quotes = '"'.repeat(128);
  const longest = agentOf(quotes, { version: quotes, sessionId: quotes, provider: quotes });
  const capabilities = Array.from({ length: 16 }, () => "c".repeat(64));
  const longText = { requestId: "x".repeat(300), agent: { ...longest, capabilities } };
  const chat = { surface: "chat", method: "chat.completions", model: "M", costMilliCu: 1 };
  await take(meter, principalOf(), 1, longText).settle([{ ...chat, pricing }]);
  await take(meter, principalOf(), 1, { requestId: "y" }).settle([
    { ...chat, pricing: { ...pricing, tokenUsdRate: "0.25" } },
    { ...chat, pricing: byClass },
    chat,
  ]);
  const rows = fixture.rows();
  assert.deepEqual(
    rows.map(({ requestId, agent, pricing: kept }) => [requestId, agent, kept]),
    [
      ["x".repeat(256), longest, pricing],
      ["y", undefined, { ...pricing, tokenUsdRate: "0.25" }],
      ["y", undefined, byClass],
      ["y", undefined, undefined],
    ],
  );
});

test("a missing journal, or a file that is not a journal, is a clear error", (t) => {
  const { dataDir, rows } = meterFixture(t);
  assert.throws(rows, storeError("SLUICE_STORE_FAILED"));
  mkdirSync(dataDir, { recursive: true });
  writeFileSync(chargesPath(dataDir), "not a database, but long enough to be looked at".repeat(40));
  assert.throws(rows, storeError("SLUICE_STORE_CORRUPT"));
});

test("a journal of a newer release is a clear error for readers and for the meter", async (t) => {
  const fixture = meterFixture(t);
  openChargesDatabase(fixture.dataDir).close();
  using db = new DatabaseSync(chargesPath(fixture.dataDir));
  db.exec("PRAGMA user_version = 99");
  assert.throws(() => fixture.rows(), storeError("SLUICE_STORE_NEWER"));
  await assert.rejects(fixture.open(), storeError("SLUICE_STORE_NEWER"));
});

test("a commit with invalid records is a clear error and not a shorter result", async (t) => {
  const fixture = meterFixture(t);
  const meter = await fixture.open();
  await charge(meter, principalOf(), 1);
  await meter.close();
  using db = new DatabaseSync(chargesPath(fixture.dataDir));
  db.exec("UPDATE commits SET records = x'ff00000010000000ffffffffffffffff'");
  assert.throws(() => fixture.rows(), storeError("SLUICE_STORE_FAILED"));
});
