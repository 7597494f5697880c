/** Tests of the state machine that watches the limits of plans and keys, with a manual clock. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { KeyRecord, WindowState } from "sluice-gateway/services";
import { LimitWatch, type LimitDeps } from "../../../plugins/alerts/alerts/limits.ts";
import { manualClock } from "../../../src/testing/clock.ts";

const day = 86_400_000;

/** A workspace with a plan of 1,000 milli-CU and a key with the given windows. `used`: the charges, changed by tests. */
function bench(limits: { readonly day?: number; readonly overageUsdPerCu?: string } = {}) {
  const clock = manualClock();
  const used = { plan: 0, day: 0 };
  const state = { isDown: false };
  const claimed = new Map<string, number>();
  const windowOf = (usedMilliCu: number, limitMilliCu: number | undefined): WindowState => ({
    usedMilliCu,
    limitMilliCu,
    freesAt: undefined,
    roomAt: undefined,
    emptyAt: undefined,
  });
  // Only the members that the watch uses.
  const deps = {
    clock,
    claims: {
      now: () => clock.now(),
      async claim(id: string, until: number) {
        if (state.isDown) throw new Error("the store is away");
        if (claimed.has(id)) return false;
        claimed.set(id, until);
        return true;
      },
    },
    accounts: {
      admin: {
        findKey: (id: string) =>
          ({ id, name: "app", workspaceId: "ws_1", cuLimit24hMilli: limits.day }) as KeyRecord,
        findWorkspace: (id: string) => ({ id, plan: "free" }),
        plan: () => ({ includedMilliCu: 1_000, overageUsdPerCu: limits.overageUsdPerCu }),
      },
    },
    metering: {
      usage: {
        spend: async () => ({
          kind: "done",
          spend: { groups: [{ name: "key_1", usedMilliCu: used.plan + used.day }] },
        }),
      },
      keyWindows: () => ({
        day: windowOf(used.day, limits.day),
        month: windowOf(used.day, undefined),
        openMilliCu: 0,
      }),
      workspaceUsage: () => ({
        includedMilliCu: used.plan,
        purchasedMilliCu: 0,
        overageMilliCu: 0,
      }),
      purchasedLeft: () => 0,
    },
  } as unknown as LimitDeps;
  const summaries = async (watch: LimitWatch): Promise<string[]> => {
    const seen: string[] = [];
    await watch.look(({ summary }) => void seen.push(summary));
    return seen;
  };
  return { clock, used, state, deps, summaries };
}

test("each threshold of a plan is reported once per month, the highest one only", async () => {
  const { used, deps, summaries, clock } = bench();
  const watch = new LimitWatch(deps);
  const seen: string[][] = [];
  for (const milliCu of [499, 500, 501, 949, 950, 1_000]) {
    used.plan = milliCu;
    seen.push(await summaries(watch));
  }
  const of = (percent: number): string => `workspace ws_1 has used ${percent} % of its plan`;
  assert.deepEqual(seen, [[], [of(50)], [], [of(80)], [of(95)], []]);
  clock.advance(31 * day);
  used.plan = 990;
  assert.deepEqual(await summaries(watch), [of(95)]);
});

test("a threshold that another gateway has reported is not reported again", async () => {
  const { used, deps, summaries } = bench({ day: 100 });
  used.day = 85;
  const first = await summaries(new LimitWatch(deps));
  assert.deepEqual(first, ["key key_1 has used 80 % of its limit of 24h"]);
  const other = new LimitWatch(deps);
  assert.deepEqual(await summaries(other), []);
  used.day = 60;
  assert.deepEqual(await summaries(other), []);
  used.day = 96;
  assert.deepEqual(await summaries(other), ["key key_1 has used 95 % of its limit of 24h"]);
});

test("a plan with unlimited overage, and a key without a limit, have nothing to report", async () => {
  const { used, deps, summaries } = bench({ overageUsdPerCu: "0.001" });
  used.plan = 5_000;
  assert.deepEqual(await summaries(new LimitWatch(deps)), []);
});

test("a look that fails is repeated, although the key has no new charges", async () => {
  const { used, deps, summaries, state } = bench();
  const watch = new LimitWatch(deps);
  used.plan = 600;
  state.isDown = true;
  await assert.rejects(summaries(watch), /the store is away/);
  state.isDown = false;
  assert.deepEqual(await summaries(watch), ["workspace ws_1 has used 50 % of its plan"]);
});

test("a look at many keys lets the gateway do other work in between", async () => {
  const { deps } = bench({ day: 100 });
  const keys = Array.from({ length: 5 }, (_, n) => ({ name: `key_${n}`, usedMilliCu: 1 }));
  let [turns, looks] = [0, 0];
  let running = true;
  const count = (): void => {
    turns++;
    if (running) setImmediate(count);
  };
  setImmediate(count);
  const { metering } = deps;
  const slow = {
    ...metering,
    usage: { spend: async () => ({ kind: "done", spend: { groups: keys } }) },
    keyWindows(...args: Parameters<typeof metering.keyWindows>) {
      // A slow store, which answers at once.
      const until = performance.now() + 6;
      while (performance.now() < until);
      looks++;
      return metering.keyWindows(...args);
    },
  } as unknown as typeof metering;
  await new LimitWatch({ ...deps, metering: slow }).look(() => {});
  running = false;
  assert.equal(looks, 5);
  assert.ok(turns >= 4, `only ${turns} turns of the event loop`);
});
