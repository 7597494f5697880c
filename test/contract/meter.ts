/** Tests of every implementation of a meter. If credit is not shared, both gateways have the same meter. */
import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import type { Awaitable } from "sluice-gateway/plugin";
import type {
  Agent,
  CuRefusal,
  KeyPrincipal,
  Metering,
  Reservation,
} from "sluice-gateway/services";
import { about, agentOf, line, principalOf } from "../plugins/billing/metering/principals.ts";

export type ContractMeter = Omit<Metering, "usage" | "outageMs">;

export interface RecordedCharge {
  readonly requestId: string;
  readonly surface: string;
  readonly method: string;
  readonly model: string | undefined;
  readonly agentName: string | undefined;
  readonly costMilliCu: number;
  readonly inputTokens: number;
  readonly outcome: string;
}

export interface OpenMeters {
  readonly one: ContractMeter;
  readonly other: ContractMeter;
  /** Returns the recorded charges in the order in which they were settled. */
  readonly charges: () => Awaitable<readonly RecordedCharge[]>;
}

async function take(
  meter: ContractMeter,
  principal: KeyPrincipal,
  costMilliCu: number,
): Promise<Reservation> {
  const taken = await meter.reserve(principal, costMilliCu, about);
  if (taken.kind !== "reserved") throw new Error(`${taken.kind} instead of reserved`);
  return taken;
}

/** Reserves more than the limit allows. Returns the refusal, and the time at which the limit has room again. */
async function refuse(
  meter: ContractMeter,
  principal: KeyPrincipal,
  costMilliCu: number,
): Promise<{ readonly refusal: CuRefusal; readonly at: number | undefined }> {
  const taken = await meter.reserve(principal, costMilliCu, about);
  if (taken.kind !== "refused") throw new Error(`${taken.kind} instead of refused`);
  const { clearsAt, ...refusal } = taken;
  return { refusal, at: typeof clearsAt === "function" ? clearsAt() : clearsAt };
}

export function describeMeter(name: string, open: (t: TestContext) => Awaitable<OpenMeters>): void {
  describe(`meter: ${name}`, () => {
    test("a settled charge is recorded with all its members when its promise resolves", async (t) => {
      const { one, charges } = await open(t);
      const agent = agentOf("Planner", { sessionId: "s-1" });
      const taken = await one.reserve(principalOf(), 9, { ...about, agent });
      assert.equal(taken.kind, "reserved");
      if (taken.kind !== "reserved") return;
      await taken.settle([
        { surface: "chat", method: "m", model: "A/b", costMilliCu: 4, inputTokens: 3 },
        { surface: "chat", method: "m", costMilliCu: 5, outcome: "clientLeft" },
      ]);
      const common = { requestId: "req-1", surface: "chat", method: "m", agentName: "Planner" };
      assert.deepEqual(await charges(), [
        {
          ...common,
          model: "A/b",
          costMilliCu: 4,
          inputTokens: 3,
          outcome: "complete",
        },
        {
          ...common,
          model: undefined,
          costMilliCu: 5,
          inputTokens: 0,
          outcome: "clientLeft",
        },
      ]);
    });

    test("settling or releasing repeatedly charges once, and settling without lines charges nothing", async (t) => {
      const { one, charges } = await open(t);
      const first = await take(one, principalOf(), 10);
      await first.settle([line(4)]);
      await first.settle([line(6)]);
      first.release();
      const second = await take(one, principalOf(), 10);
      second.release();
      await second.settle([line(5)]);
      await (await take(one, principalOf(), 10)).settle([]);
      assert.deepEqual(
        (await charges()).map(({ costMilliCu }) => costMilliCu),
        [4],
      );
    });

    test("a charge above its reservation is cut from the last line backwards", async (t) => {
      const { one, charges } = await open(t);
      await (await take(one, principalOf(), 10)).settle([line(6), line(5), line(3)]);
      assert.deepEqual(
        (await charges()).map(({ costMilliCu }) => costMilliCu),
        [6, 4, 0],
      );
    });

    test("several reservations can pay for one charge, and all of them end", async (t) => {
      const { one, charges } = await open(t);
      const principal = principalOf({ plan: { includedMilliCu: 100 } });
      const first = await take(one, principal, 30);
      const second = await take(one, principal, 70);
      await first.settle([line(90)], [second]);
      await second.settle([line(1)]);
      // A reservation that has ended pays for nothing more.
      await (await take(one, principal, 10)).settle([line(40)], [second]);
      assert.deepEqual(
        (await charges()).map(({ costMilliCu }) => costMilliCu),
        [90, 10],
      );
    });

    test("a line that cannot be charged rejects, charges nothing and releases the credit", async (t) => {
      const { one, charges } = await open(t);
      const principal = principalOf({ plan: { includedMilliCu: 100 } });
      for (const wrong of [-1, 1.5, NaN, Infinity, 2 ** 53]) {
        assert.throws(() => void one.reserve(principal, wrong, about), RangeError, String(wrong));
        const taken = await take(one, principal, 100);
        await assert.rejects(taken.settle([line(1), line(wrong)]), RangeError, String(wrong));
      }
      await (await take(one, principal, 100)).settle([line(1)]);
      assert.equal((await charges()).length, 1);
    });

    test("a line that cannot be recorded fails alone", async (t) => {
      const { one, charges } = await open(t);
      const wrong = [
        { surface: 1 },
        { inputTokens: 1n },
        { outputTokens: -1 },
        { reasoningTokens: NaN },
        { pricing: null },
        { pricing: { network: "n", coefficient: 1n, pricePerTokenNano: "1", asOf: "" } },
      ];
      const takes = await Promise.all([0, ...wrong].map(() => take(one, principalOf(), 1)));
      const [first, ...others] = takes;
      const settled = others.map((each, i) =>
        // A plugin may pass anything.
        assert.rejects(
          each.settle([{ ...line(1), ...wrong[i] } as ReturnType<typeof line>]),
          RangeError,
        ),
      );
      await Promise.all([first?.settle([line(1)]), ...settled]);
      assert.equal((await charges()).length, 1);
    });

    test("members of an agent that cannot be recorded are omitted, and the charges are recorded", async (t) => {
      const { one, charges } = await open(t);
      const circular: unknown[] = [];
      circular.push(circular);
      const wrong = [null, "Planner", { name: 1n }, { name: "Planner", capabilities: circular }];
      for (const agent of wrong) {
        const described = { ...about, agent: agent as unknown as Agent };
        const taken = await one.reserve(principalOf(), 1, described);
        assert.equal(taken.kind, "reserved");
        await taken.settle([line(1)]);
      }
      assert.deepEqual(
        (await charges()).map(({ agentName }) => agentName),
        [undefined, undefined, undefined, "Planner"],
      );
    });

    test("if several scopes refuse, the plan is reported first, then 30d, then 24h, and nothing is reserved in any", async (t) => {
      const { one } = await open(t);
      const key = { cuLimit24hMilli: 50, cuLimit30dMilli: 55 };
      const principal = principalOf({ key, plan: { includedMilliCu: 60 } });
      for (const [window, limitMilliCu] of [
        [undefined, 60],
        ["30d", 55],
        ["24h", 50],
      ] as const) {
        const { refusal } = await refuse(one, principal, limitMilliCu + 1);
        assert.deepEqual(refusal, { kind: "refused", window, usedMilliCu: 0, limitMilliCu });
      }
      (await take(one, principal, 50)).release();
    });

    test("a refusal has the time at which its limit has room again", async (t) => {
      const { one } = await open(t);
      const plan = { includedMilliCu: 160 };
      for (const window of ["24h", "30d"] as const) {
        const state = window === "24h" ? "day" : "month";
        const limit = window === "24h" ? { cuLimit24hMilli: 50 } : { cuLimit30dMilli: 50 };
        const principal = principalOf({ key: { id: `key_${state}`, ...limit }, plan });
        const empty = await refuse(one, principal, 51);
        assert.deepEqual([empty.refusal.window, empty.at], [window, undefined]);
        for (const cost of [40, 10]) {
          await (await take(one, principal, cost)).settle([line(cost)]);
          const { at } = await refuse(one, principal, 11);
          const { freesAt, roomAt } = (await one.keyWindows(principal.key))[state];
          assert.ok(freesAt !== undefined);
          assert.equal(at, roomAt ?? freesAt);
        }
      }
      const { refusal, at = 0 } = await refuse(one, principalOf({ plan }), 61);
      assert.equal(refusal.window, undefined);
      assert.match(new Date(at).toISOString(), /-01T00:00:00\.000Z$/);
    });

    test("a month draws included credit, then purchased credit, then overage", async (t) => {
      const { one } = await open(t);
      const principal = principalOf({
        workspace: { purchasedTotalMilliCu: 20, overageLimitCuMilli: 30 },
        plan: { includedMilliCu: 10, overageUsdPerCu: "0.001" },
      });
      await (await take(one, principal, 60)).settle([line(15), line(40)]);
      const { includedMilliCu, purchasedMilliCu, overageMilliCu } =
        await one.workspaceUsage("ws_1");
      assert.deepEqual([includedMilliCu, purchasedMilliCu, overageMilliCu], [10, 20, 25]);
      assert.equal(await one.purchasedLeft(principal.workspace), 0);
      const { refusal } = await refuse(one, principal, 6);
      assert.deepEqual(refusal, {
        kind: "refused",
        window: undefined,
        usedMilliCu: 55,
        limitMilliCu: 60,
      });
    });

    test("a reservation of 0 is never refused, and reserveWithoutLimit exceeds every limit", async (t) => {
      const { one, charges } = await open(t);
      const principal = principalOf({ plan: { includedMilliCu: 0 }, key: { cuLimit24hMilli: 0 } });
      (await take(one, principal, 0)).release();
      const forced = one.reserveWithoutLimit(principal, 8, about);
      assert.equal(forced.kind, "reserved");
      if (forced.kind === "reserved") await forced.settle([line(8)]);
      assert.deepEqual(
        (await charges()).map(({ costMilliCu }) => costMilliCu),
        [8],
      );
    });

    test("the gateways spend one budget exactly, however many calls run at once", async (t) => {
      const { one, other, charges } = await open(t);
      const principal = principalOf({
        key: { cuLimit24hMilli: 100 },
        plan: { includedMilliCu: 1_000 },
      });
      const results = await Promise.all(
        Array.from({ length: 60 }, async (_, n) => {
          const taken = await (n % 2 === 0 ? one : other).reserve(principal, 3, about);
          if (taken.kind === "reserved") await taken.settle([line(3)]);
          return taken.kind;
        }),
      );
      assert.equal(results.filter((kind) => kind === "reserved").length, 33);
      assert.equal(results.filter((kind) => kind === "refused").length, 27);
      assert.equal((await charges()).length, 33);
      const { day, openMilliCu } = await other.keyWindows(principal.key);
      assert.deepEqual([day.usedMilliCu, openMilliCu], [99, 0]);
      assert.equal((await other.workspaceUsage("ws_1")).includedMilliCu, 99);
    });
  });
}
