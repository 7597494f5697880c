/**
 * Tests of what is left: windows of keys, months of workspaces, purchased credit and plans, over months and restarts.
 * Every case has the same result whether a charge is divided when it is made or when the month is read.
 */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { ChargeLine, CuRefusal, WorkspaceUsage } from "sluice-gateway/services";
import { until } from "../plugins/billing/shipping/fixture.ts";
import {
  charge,
  createKey,
  day,
  hour,
  minute,
  principalOf,
  startAt,
  type KnownKey,
  type OpenGateways,
  type StoreGateways,
} from "./gateways.ts";

const nextMonth = Date.UTC(2026, 9, 1);
const by = { actor: "test", requestId: "req-1" };
const line = (costMilliCu: number): ChargeLine => ({
  surface: "ledger-rpc",
  method: "chain_getBlock",
  costMilliCu,
});

async function refuse(
  { one }: StoreGateways,
  key: KnownKey,
  costMilliCu: number,
): Promise<CuRefusal & { readonly clearsAt: number | undefined }> {
  const about = { requestId: "refused", surface: "chat" };
  const taken = await one.metering.reserve(await principalOf(one, key), costMilliCu, about);
  if (taken.kind !== "refused") throw new Error(`${taken.kind} instead of refused`);
  const { clearsAt } = taken;
  return { ...taken, clearsAt: typeof clearsAt === "function" ? clearsAt() : clearsAt };
}

async function left(
  { other }: StoreGateways,
  key: KnownKey,
): Promise<Omit<WorkspaceUsage, "periodStart"> & { readonly purchasedLeft: number }> {
  const { workspace } = await principalOf(other, key);
  const { periodStart: _, ...drawn } = await other.metering.workspaceUsage(workspace.id);
  return { ...drawn, purchasedLeft: await other.metering.purchasedLeft(workspace) };
}

const drawn = (included: number, purchased: number, overage: number, purchasedLeft: number) => ({
  includedMilliCu: included,
  purchasedMilliCu: purchased,
  overageMilliCu: overage,
  openMilliCu: 0,
  purchasedLeft,
});

async function purchase({ one }: StoreGateways, key: KnownKey, milliCu: number): Promise<void> {
  const answer = await one.accounts.workspaces.purchase(key.workspaceId, milliCu, by);
  assert.equal(answer.kind, "done");
}

export function describeBalances(name: string, open: OpenGateways): void {
  describe(`balances: ${name}`, () => {
    test("the windows of a key hold its charges for 24 hours and for 30 days", async (t) => {
      const gateways = await open(t);
      const key = await createKey(gateways, "enterprise", {
        cuLimit24hMilli: 100,
        cuLimit30dMilli: 150,
      });
      const { key: limits } = await principalOf(gateways.one, key);
      const windows = async (): Promise<number[]> => {
        const { day: of24h, month, openMilliCu } = await gateways.one.metering.keyWindows(limits);
        assert.equal(openMilliCu, 0);
        return [of24h.usedMilliCu, month.usedMilliCu];
      };
      await charge(gateways.one, key, [line(60), line(30)]);
      assert.deepEqual(await windows(), [90, 90]);
      const refused = await refuse(gateways, key, 11);
      assert.deepEqual(
        [refused.window, refused.usedMilliCu, refused.limitMilliCu],
        ["24h", 90, 100],
      );
      const within = (refused.clearsAt ?? 0) - (startAt + day);
      assert.ok(within > 0 && within <= 2 * minute, `${within} ms after 24 hours`);
      await gateways.pass(day - minute);
      assert.deepEqual(await windows(), [90, 90]);
      await gateways.pass(3 * minute);
      assert.deepEqual(await windows(), [0, 90]);
      await charge(gateways.one, key, [line(60)]);
      assert.equal((await refuse(gateways, key, 1)).window, "30d");
      await gateways.pass(30 * day - day - 5 * minute);
      assert.deepEqual(await windows(), [0, 150]);
      await gateways.pass(2 * hour);
      assert.deepEqual(await windows(), [0, 60]);
      await charge(gateways.other, key, [line(90)]);
      assert.deepEqual(await windows(), [90, 150]);
    });

    test("a month ends with its draws, and purchased credit that was drawn stays drawn", async (t) => {
      const gateways = await open(t);
      const key = await createKey(gateways, "developer");
      await purchase(gateways, key, 500);
      await charge(gateways.one, key, [line(2_300)]);
      assert.deepEqual(await left(gateways, key), drawn(2_000, 300, 0, 200));
      await gateways.pass(nextMonth - startAt - minute);
      assert.deepEqual(await left(gateways, key), drawn(2_000, 300, 0, 200));
      await gateways.pass(minute);
      assert.deepEqual(await left(gateways, key), drawn(0, 0, 0, 200));
      await charge(gateways.other, key, [line(1_000), line(1_150)]);
      assert.deepEqual(await left(gateways, key), drawn(2_000, 150, 0, 50));
      await charge(gateways.one, key, [line(70)]);
      assert.deepEqual(await left(gateways, key), drawn(2_000, 200, 20, 0));
      await gateways.pass(40 * day);
      const { periodStart } = await gateways.one.metering.workspaceUsage(key.workspaceId);
      assert.equal(periodStart, Date.UTC(2026, 10, 1));
      await purchase(gateways, key, 9);
      assert.deepEqual(await left(gateways, key), drawn(0, 0, 0, 9));
    });

    test("credit that is bought during overage is left until the next request draws it", async (t) => {
      const gateways = await open(t);
      const key = await createKey(gateways, "developer");
      await charge(gateways.one, key, [line(2_100)]);
      await purchase(gateways, key, 500);
      await gateways.pass(0);
      assert.deepEqual(await left(gateways, key), drawn(2_000, 0, 100, 500));
      await charge(gateways.one, key, [line(10)]);
      await gateways.pass(0);
      assert.deepEqual(await left(gateways, key), drawn(2_000, 110, 0, 390));
    });

    test("a plan without overage ends at its included and purchased credit, until the next month", async (t) => {
      const gateways = await open(t);
      const key = await createKey(gateways, "free");
      await purchase(gateways, key, 100);
      await charge(gateways.one, key, [line(900)]);
      const refused = await refuse(gateways, key, 201);
      const plan = { kind: "refused", window: undefined, limitMilliCu: 1_100 };
      assert.deepEqual(refused, { ...plan, usedMilliCu: 900, clearsAt: nextMonth });
      await charge(gateways.other, key, [line(200)]);
      assert.equal((await refuse(gateways, key, 1)).usedMilliCu, 1_100);
      await gateways.pass(nextMonth - startAt + minute);
      assert.equal((await refuse(gateways, key, 1_001)).limitMilliCu, 1_000);
      await charge(gateways.one, key, [line(1_000)]);
      assert.equal((await refuse(gateways, key, 1)).usedMilliCu, 1_000);
    });

    test("overage ends at its limit, and a raised limit gives more room at once", async (t) => {
      const gateways = await open(t);
      const key = await createKey(gateways, "developer");
      const { admin } = gateways.one.accounts;
      const set = async (overageLimitCuMilli: number | null): Promise<void> => {
        const at = gateways.now();
        await admin.setWorkspace(key.workspaceId, { overageLimitCuMilli }, { actor: "test", at });
      };
      await set(50);
      await charge(gateways.one, key, [line(2_050)]);
      assert.equal((await refuse(gateways, key, 1)).limitMilliCu, 2_050);
      await set(60);
      await charge(gateways.one, key, [line(10)]);
      assert.equal((await refuse(gateways, key, 1)).limitMilliCu, 2_060);
      await set(null);
      await charge(gateways.one, key, [line(100_000)]);
      assert.deepEqual(await left(gateways, key), drawn(2_000, 0, 100_060, 0));
    });

    test("an upgrade counts at once and for the charges of the whole month", async (t) => {
      const gateways = await open(t);
      const key = await createKey(gateways, "free");
      await gateways.one.accounts.admin.setWorkspace(
        key.workspaceId,
        { overageLimitCuMilli: 0 },
        { actor: "test", at: gateways.now() },
      );
      await charge(gateways.one, key, [line(1_000)]);
      await refuse(gateways, key, 1);
      const { workspaces } = gateways.one.accounts;
      const upgraded = await workspaces.upgrade(key.workspaceId, "startup", by);
      assert.equal(upgraded.kind, "done");
      await charge(gateways.one, key, [line(4_000)]);
      const { usedMilliCu, limitMilliCu } = await refuse(gateways, key, 1);
      assert.deepEqual([usedMilliCu, limitMilliCu], [5_000, 5_000]);
      await gateways.pass(0);
      assert.deepEqual(await left(gateways, key), drawn(5_000, 0, 0, 0));
    });

    test("a downgrade is in force from the next month on", async (t) => {
      const gateways = await open(t);
      const key = await createKey(gateways, "developer");
      const { workspaces } = gateways.one.accounts;
      const answer = await workspaces.downgrade(key.workspaceId, "free", by);
      assert.equal(answer.kind, "done");
      assert.equal(
        answer.kind === "done" && answer.value.pending_plan_at,
        "2026-10-01T00:00:00.000Z",
      );
      await gateways.pass(nextMonth - startAt - 1);
      assert.equal((await principalOf(gateways.one, key)).plan.name, "developer");
      await charge(gateways.one, key, [line(1_500)]);
      await gateways.pass(1);
      assert.equal((await principalOf(gateways.other, key)).plan.name, "free");
      assert.equal((await refuse(gateways, key, 1_001)).limitMilliCu, 1_000);
    });

    test("two keys of a workspace share its month and have windows of their own", async (t) => {
      const gateways = await open(t);
      const first = await createKey(gateways, "free", { cuLimit24hMilli: 700 });
      const issued = await gateways.one.accounts.admin.createKey(
        {
          workspaceId: first.workspaceId,
          name: "second",
          environment: "dev",
          capabilities: ["inference"],
        },
        { actor: "test", at: gateways.now() },
      );
      assert.ok("text" in issued);
      const second = { ...first, keyId: issued.key.id, text: issued.text };
      await charge(gateways.one, first, [line(700)]);
      assert.equal((await refuse(gateways, first, 1)).window, "24h");
      await charge(gateways.other, second, [line(300)]);
      assert.equal((await refuse(gateways, second, 1)).window, undefined);
      const { day: used } = await gateways.one.metering.keyWindows({
        id: second.keyId,
        cuLimit24hMilli: undefined,
        cuLimit30dMilli: undefined,
      });
      assert.equal(used.usedMilliCu, 300);
    });

    test("reserved credit counts as open until it is charged or released, and not after a restart", async (t) => {
      const gateways = await open(t);
      const key = await createKey(gateways, "free", { cuLimit24hMilli: 500 });
      const principal = await principalOf(gateways.one, key);
      const about = { requestId: "open", surface: "chat", streamed: true };
      const taken = await gateways.one.metering.reserve(principal, 400, about);
      assert.equal(taken.kind, "reserved");
      assert.equal((await refuse(gateways, key, 101)).usedMilliCu, 400);
      if (taken.kind === "reserved") taken.release();
      // A refusal may be remembered for a second.
      await until(async () => {
        const again = await gateways.one.metering.reserve(principal, 500, about);
        if (again.kind === "reserved") await again.settle([line(500)]);
        return again.kind === "reserved";
      });
      await gateways.pass(0);
      assert.deepEqual(await left(gateways, key), drawn(500, 0, 0, 0));
      assert.equal((await refuse(gateways, key, 1)).usedMilliCu, 500);
    });
  });
}
