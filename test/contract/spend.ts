/** Tests of the sums over days and months: reports by day, and the spend by member. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { ChargeLine, Spend, SpendQuery, UsageMember } from "sluice-gateway/services";
import {
  charge,
  createKey,
  day,
  hour,
  startAt,
  type KnownKey,
  type OpenGateways,
  type StoreGateways,
} from "./gateways.ts";
import { classPricing } from "./rows.ts";

const line = (costMilliCu: number, more: Partial<ChargeLine> = {}): ChargeLine => ({
  surface: "ledger-rpc",
  method: "chain_getBlock",
  costMilliCu,
  ...more,
});
const midnight = (time: number): number => Math.floor(time / day) * day;
const first = midnight(startAt);

async function spend({ other }: StoreGateways, query: Partial<SpendQuery>): Promise<Spend> {
  const whole = { workspaceId: undefined, from: first, to: first + day, by: "key", limit: 100 };
  const answer = await other.metering.usage.spend({ ...whole, ...query } as SpendQuery);
  if (answer.kind !== "done") throw new Error(`${answer.kind} instead of done`);
  return answer.spend;
}

const used = ({ groups }: Spend): unknown[] =>
  groups.map((group) => [group.name, group.usedMilliCu]);

async function chargeOverMonths(gateways: StoreGateways): Promise<readonly [KnownKey, KnownKey]> {
  const [acme, beta] = [
    await createKey(gateways, "enterprise"),
    await createKey(gateways, "enterprise"),
  ];
  await charge(gateways.one, acme, [line(100)]);
  await charge(gateways.other, beta, [line(30, { method: "state_call" })]);
  await gateways.pass(day);
  await charge(gateways.one, acme, [line(7)]);
  await gateways.pass(30 * day);
  await charge(gateways.one, beta, [line(11)]);
  await gateways.pass(31 * day);
  await charge(gateways.one, acme, [line(500)]);
  return [acme, beta];
}

export function describeSpend(name: string, open: OpenGateways): void {
  describe(`spend over days and months: ${name}`, () => {
    test("the spend of days, months and a year has the charges of exactly these days", async (t) => {
      const gateways = await open(t);
      const [acme, beta] = await chargeOverMonths(gateways);
      const by = "workspace";
      const groupsOf = async (from: number, to: number): Promise<unknown[]> =>
        used(await spend(gateways, { by, from, to }));
      const [a, b] = [acme.workspaceId, beta.workspaceId];
      assert.deepEqual(await groupsOf(first, first + day), [
        [a, 100],
        [b, 30],
      ]);
      assert.deepEqual(await groupsOf(first + day, first + 2 * day), [[a, 7]]);
      assert.deepEqual(await groupsOf(first + 2 * day, first + 3 * day), []);
      assert.deepEqual(await groupsOf(Date.UTC(2026, 9, 1), Date.UTC(2026, 10, 1)), [[b, 11]]);
      assert.deepEqual(await groupsOf(Date.UTC(2026, 0, 1), Date.UTC(2027, 0, 1)), [
        [a, 607],
        [b, 41],
      ]);
      const middle = [first + day, Date.UTC(2026, 10, 1)] as const;
      assert.deepEqual(await groupsOf(...middle), [
        [b, 11],
        [a, 7],
      ]);
      await gateways.pass(0);
      assert.deepEqual(await groupsOf(...middle), [
        [b, 11],
        [a, 7],
      ]);
    });

    test("the steps of a range are its days, for all and for each of the largest groups", async (t) => {
      const gateways = await open(t);
      const [acme, beta] = await chargeOverMonths(gateways);
      const whole = { from: first - day, to: first + 63 * day };
      const spent = await spend(gateways, { by: "workspace", ...whole });
      assert.deepEqual([spent.stepMs, spent.steps.length, spent.groupCount], [day, 64, 2]);
      const present = (steps: readonly number[] = []): unknown[] =>
        [...steps.entries()].filter(([, milliCu]) => milliCu !== 0);
      const [ofAcme, ofBeta] = spent.series;
      assert.deepEqual(present(spent.steps), [
        [1, 130],
        [2, 7],
        [32, 11],
        [63, 500],
      ]);
      assert.deepEqual(present(ofAcme), [
        [1, 100],
        [2, 7],
        [63, 500],
      ]);
      assert.deepEqual(present(ofBeta), [
        [1, 30],
        [32, 11],
      ]);
      assert.deepEqual([spent.total.calls, spent.total.usedMilliCu], [5, 648]);
      const own = await spend(gateways, { ...whole, workspaceId: beta.workspaceId, by: "method" });
      assert.deepEqual(used(own), [
        ["state_call", 30],
        ["chain_getBlock", 11],
      ]);
      const one = await spend(gateways, { by: "workspace", ...whole, limit: 1 });
      assert.deepEqual([used(one), one.groupCount], [[[acme.workspaceId, 607]], 2]);
      assert.equal(one.total.usedMilliCu, 648);
    });

    test("a range of up to two days has hours if they are requested", async (t) => {
      const gateways = await open(t);
      const key = await createKey(gateways, "enterprise");
      await charge(gateways.one, key, [line(5)]);
      await gateways.pass(2 * hour);
      await charge(gateways.one, key, [line(6), line(1)]);
      const hours = await spend(gateways, { wantsHours: true });
      assert.deepEqual([hours.stepMs, hours.steps.length], [hour, 24]);
      assert.deepEqual([hours.steps[11], hours.steps[13]], [5, 7]);
      assert.equal(
        hours.steps.reduce((sum, each) => sum + each, 0),
        12,
      );
      assert.deepEqual(hours.series, [hours.steps]);
      const long = await spend(gateways, { wantsHours: true, to: first + 3 * day });
      assert.deepEqual([long.stepMs, long.steps], [day, [12, 0, 0]]);
    });

    test("the spend is broken down by tool, route and agent", async (t) => {
      const gateways = await open(t);
      const key = await createKey(gateways, "enterprise");
      const none = { version: undefined, sessionId: undefined, provider: undefined };
      const agent = { name: "Planner", ...none, capabilities: undefined };
      const tool = { surface: "mcp", method: "ledger_getBlock" };
      await charge(gateways.one, key, [line(30, tool)], { agent, route: "/mcp" });
      await charge(gateways.one, key, [line(20, { surface: "tool-rpc", method: "docs_search" })]);
      await charge(gateways.one, key, [
        line(9, {
          surface: "chat",
          method: "completions",
          model: "A/b",
          inputTokens: 3,
          outputTokens: 4,
          cachedTokens: 2,
          reasoningTokens: 1,
          pricing: classPricing,
        }),
      ]);
      const groups = async (by: SpendQuery["by"]): Promise<unknown> =>
        used(await spend(gateways, { by }));
      assert.deepEqual(await groups("tool"), [
        ["ledger_getBlock", 30],
        ["docs_search", 20],
        [undefined, 9],
      ]);
      assert.deepEqual(await groups("route"), [
        ["/mcp", 30],
        [undefined, 29],
      ]);
      assert.deepEqual(await groups("tag"), [
        ["Planner", 30],
        [undefined, 29],
      ]);
      assert.deepEqual(await groups("model"), [
        [undefined, 50],
        ["A/b", 9],
      ]);
      const { total } = await spend(gateways, {});
      assert.deepEqual([total.calls, total.inputTokens, total.outputTokens], [3, 3, 4]);
      assert.deepEqual([total.cachedTokens, total.reasoningTokens], [2, 1]);
      assert.deepEqual(await groups("key"), [[key.keyId, 59]]);
    });

    test("a report has the days of its range, and its bounds are exact", async (t) => {
      const gateways = await open(t);
      const [acme] = await chargeOverMonths(gateways);
      const report = async (
        groupBy: readonly UsageMember[],
        from: number,
        to: number,
      ): Promise<unknown> => {
        const range = { workspaceId: acme.workspaceId, from, to, groupBy };
        const made = await gateways.one.metering.usage.report(range);
        if (made.kind !== "done") throw new Error(`${made.kind} instead of done`);
        const { groups } = JSON.parse(new TextDecoder().decode(made.json)) as {
          groups: { day?: string; method?: string; used_cu_milli: number }[];
        };
        return groups.map((group) => [group.day ?? group.method, group.used_cu_milli]);
      };
      const year = [Date.UTC(2026, 0, 1), Date.UTC(2027, 0, 1)] as const;
      assert.deepEqual(await report(["day"], ...year), [
        ["2026-09-15", 100],
        ["2026-09-16", 7],
        ["2026-11-16", 500],
      ]);
      assert.deepEqual(await report(["method"], startAt, startAt + hour), [
        ["chain_getBlock", 100],
      ]);
      assert.deepEqual(await report(["day"], startAt + hour, startAt + day), []);
      await gateways.pass(0);
      const month = [Date.UTC(2026, 8, 1), Date.UTC(2026, 9, 1)] as const;
      assert.deepEqual(await report(["method"], ...month), [["chain_getBlock", 107]]);
    });
  });
}
