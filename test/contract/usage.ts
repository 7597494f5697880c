/** Tests of every implementation of usage reports. */
import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import type { Awaitable } from "sluice-gateway/plugin";
import type { ChargeLine, UsageMember, UsageReports } from "sluice-gateway/services";
import { about, principalOf } from "../plugins/billing/metering/principals.ts";
import type { ContractMeter } from "./meter.ts";
import { classPricing } from "./rows.ts";

export interface OpenUsage {
  readonly meter: ContractMeter;
  readonly usage: UsageReports;
  /** Returns the time of the charges in milliseconds since 1970. */
  readonly now: () => number;
}

const day = 86_400_000;

async function charge(
  meter: ContractMeter,
  workspaceId: string,
  keyId: string,
  ...lines: readonly ChargeLine[]
): Promise<void> {
  const principal = principalOf({ key: { id: keyId }, workspace: { id: workspaceId } });
  const taken = await meter.reserve(principal, 10_000, about);
  if (taken.kind !== "reserved") throw new Error(`${taken.kind} instead of reserved`);
  await taken.settle(lines);
}

const block: ChargeLine = { surface: "ledger-rpc", method: "chain_getBlock", costMilliCu: 1000 };
const chat: ChargeLine = {
  surface: "chat",
  method: "completions",
  model: "A/b",
  costMilliCu: 7,
  inputTokens: 3,
  outputTokens: 4,
};

/** Returns the sum of a report of one workspace by one member, as pairs of a name and milli-CU. */
async function reported(
  usage: UsageReports,
  workspaceId: string,
  member: "key" | "method" | "model",
  { from, to }: { readonly from: number; readonly to: number },
): Promise<unknown> {
  const made = await usage.report({ workspaceId, from, to, groupBy: [member] });
  if (made.kind !== "done") return made;
  const { groups } = JSON.parse(new TextDecoder().decode(made.json)) as {
    groups: Record<string, unknown>[];
  };
  return new Map(groups.map((group) => [group[member] ?? undefined, group["used_cu_milli"]]));
}

export function describeUsage(name: string, open: (t: TestContext) => Awaitable<OpenUsage>): void {
  describe(`usage reports: ${name}`, () => {
    test("charges are added up by group, for one workspace and one range", async (t) => {
      const { meter, usage, now } = await open(t);
      const start = now();
      await charge(meter, "ws_1", "key_1", block, chat);
      await charge(meter, "ws_1", "key_2", block);
      await charge(meter, "ws_2", "key_3", block);
      const end = now() + 1;
      const report = async (
        groupBy: readonly UsageMember[],
        from = start,
        to = end,
      ): Promise<unknown> => {
        const made = await usage.report({ workspaceId: "ws_1", from, to, groupBy });
        if (made.kind !== "done") return made;
        return JSON.parse(new TextDecoder().decode(made.json));
      };
      const head = (to = end): object => ({
        workspace_id: "ws_1",
        from: new Date(start).toISOString(),
        to: new Date(to).toISOString(),
      });
      const tokens = { input_tokens: 0, output_tokens: 0 };
      assert.deepEqual(await report([]), {
        ...head(),
        used_cu_milli: 2007,
        groups: [{ calls: 3, used_cu_milli: 2007, input_tokens: 3, output_tokens: 4 }],
      });
      assert.deepEqual(await report(["model", "key"]), {
        ...head(),
        used_cu_milli: 2007,
        groups: [
          { key: "key_1", model: null, calls: 1, used_cu_milli: 1000, ...tokens },
          {
            key: "key_1",
            model: "A/b",
            calls: 1,
            used_cu_milli: 7,
            input_tokens: 3,
            output_tokens: 4,
          },
          { key: "key_2", model: null, calls: 1, used_cu_milli: 1000, ...tokens },
        ],
      });
      const { groups } = (await report(["day", "model", "method", "surface", "key"])) as {
        groups: object[];
      };
      const members = ["key", "surface", "method", "model", "day"];
      assert.deepEqual(Object.keys(groups[0] ?? {}).slice(0, 5), members);
      const days = (await report(["day", "surface"])) as { groups: { day: string }[] };
      assert.match(days.groups[0]?.day ?? "", /^\d{4}-\d{2}-\d{2}$/);
      assert.deepEqual(await report(["key"], start, start), {
        ...head(start),
        used_cu_milli: 0,
        groups: [],
      });
    });

    test("the tokens of classes with a price of their own are counted", async (t) => {
      const { meter, usage, now } = await open(t);
      const from = now();
      const counts = { cachedTokens: 2, reasoningTokens: 1, pricing: classPricing };
      await charge(meter, "ws_1", "key_1", chat, { ...chat, ...counts });
      const range = { workspaceId: "ws_1", from, to: now() + 1 };
      const made = await usage.report({ ...range, groupBy: ["model"] });
      assert.ok(made.kind === "done");
      const { groups } = JSON.parse(new TextDecoder().decode(made.json)) as { groups: unknown };
      const sums = { calls: 2, used_cu_milli: 14, input_tokens: 6, output_tokens: 8 };
      assert.deepEqual(groups, [{ model: "A/b", ...sums, cached_tokens: 2, reasoning_tokens: 1 }]);
    });

    test("the spend has the figures of the usage report, and the steps of its six largest groups", async (t) => {
      const { meter, usage, now } = await open(t);
      const from = Math.floor(now() / day) * day - day;
      const range = { from, to: from + 3 * day };
      await charge(meter, "ws_1", "key_1", block, chat);
      for (let key = 2; key <= 8; key++) {
        await charge(meter, "ws_1", `key_${key}`, { ...block, costMilliCu: 100 * key });
      }
      await charge(meter, "ws_2", "key_9", block);
      for (const by of ["key", "method", "model"] as const) {
        const query = { workspaceId: "ws_1", ...range, by, limit: 100 };
        const answer = await usage.spend(query);
        if (answer.kind !== "done") throw new Error(`${answer.kind} instead of done`);
        const { groups, series, total } = answer.spend;
        const sums = new Map(groups.map((group) => [group.name, group.usedMilliCu]));
        assert.deepEqual(sums, await reported(usage, "ws_1", by, range));
        const largest = groups.slice(0, 6).map((group) => group.usedMilliCu);
        assert.deepEqual(
          series.map((steps) => steps.reduce((sum, milliCu) => sum + milliCu, 0)),
          largest,
        );
        assert.deepEqual(total, {
          calls: 9,
          usedMilliCu: 4507,
          includedMilliCu: 4507,
          purchasedMilliCu: 0,
          overageMilliCu: 0,
          inputTokens: 3,
          outputTokens: 4,
          cachedTokens: 0,
          reasoningTokens: 0,
        });
      }
    });
  });
}
