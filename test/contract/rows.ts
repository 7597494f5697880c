/** Tests of the rows of settled charges, as `sluice usage export` prints them. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { ChargeLine } from "sluice-gateway/services";
import {
  charge,
  createKey,
  day,
  hour,
  iso,
  minute,
  type OpenGateways,
  type StoreGateways,
} from "./gateways.ts";

type Row = Readonly<Record<string, unknown>>;

const block: ChargeLine = { surface: "ledger-rpc", method: "chain_getBlock", costMilliCu: 10 };
const pricing = {
  network: "alpha",
  coefficient: 1500,
  pricePerTokenNano: "12.5",
  tokenUsdRate: undefined,
  asOf: "2026-09-15T00:00:00.000Z",
};
const classes = { prompt: "12.5", cached: "1", completion: "30", reasoning: "40" };
export const classPricing = { ...pricing, pricePerTokenNano: "40", classes };
const chat: ChargeLine = {
  surface: "chat",
  method: "completions",
  model: "A/b-1",
  costMilliCu: 70,
  inputTokens: 5,
  outputTokens: 6,
  estimated: true,
  outcome: "clientLeft",
  pricing,
};
const agent = {
  name: "Planner 2",
  version: "1.2",
  sessionId: "s-1",
  provider: "Acme",
  capabilities: ["tools", "batch"],
};

interface Exported {
  readonly rows: readonly Row[];
  /** With `--after` and this text, the next export continues. */
  readonly position: string;
}

async function exported({ run }: StoreGateways, ...argv: readonly string[]): Promise<Exported> {
  const { code, out, err } = await run("usage", "export", ...argv);
  assert.equal(code, 0, err.join("\n"));
  const rows = out.map((line) => JSON.parse(line) as Row);
  const printed = err.join(" ").match(/--after (\S+)/)?.[1];
  return { rows, position: printed ?? String(rows.at(-1)?.["id"]) };
}

const costs = ({ rows }: Exported): unknown[] => rows.map((row) => row["used_cu_milli"]);
const ids = ({ rows }: Exported): string[] => rows.map((row) => String(row["id"]));

/** Makes a charge of 1, 2, 3 … milli-CU per hour. Returns the time of the first one. */
async function chargeByTheHour(gateways: StoreGateways, count: number): Promise<number> {
  const key = await createKey(gateways, "enterprise");
  const first = gateways.now();
  for (let n = 1; n <= count; n++) {
    await charge(gateways.one, key, [{ ...block, costMilliCu: n }]);
    if (n < count) await gateways.pass(hour);
  }
  return first;
}

export function describeRows(name: string, open: OpenGateways): void {
  describe(`rows of charges: ${name}`, () => {
    test("a row has every member of its charge, while the gateway runs", async (t) => {
      const gateways = await open(t);
      const key = await createKey(gateways, "enterprise");
      await charge(gateways.one, key, [block, chat], { requestId: 'a,"b"', agent });
      await charge(gateways.one, key, [{ ...block, costMilliCu: 0 }], { requestId: "free" });
      const { rows } = await exported(gateways);
      const times = rows.map((row) => Date.parse(String(row["time"])) - gateways.now());
      assert.ok(
        times.every((ms) => ms >= 0 && ms < minute),
        String(times),
      );
      const common = { workspace_id: key.workspaceId, key_id: key.keyId };
      const none = { model: null, input_tokens: 0, output_tokens: 0, estimated: false };
      const described = {
        agent: {
          name: "Planner 2",
          version: "1.2",
          session_id: "s-1",
          provider: "Acme",
          capabilities: ["tools", "batch"],
        },
      };
      assert.deepEqual(
        rows.map(({ id: _, time: __, ...row }) => row),
        [
          {
            ...common,
            ...none,
            surface: "ledger-rpc",
            method: "chain_getBlock",
            request_id: 'a,"b"',
            used_cu_milli: 10,
            outcome: "complete",
            ...described,
          },
          {
            ...common,
            surface: "chat",
            method: "completions",
            model: "A/b-1",
            request_id: 'a,"b"',
            used_cu_milli: 70,
            input_tokens: 5,
            output_tokens: 6,
            estimated: true,
            outcome: "clientLeft",
            ...described,
            pricing: {
              network: "alpha",
              coefficient: 1500,
              price_per_token_nano: "12.5",
              token_usd_rate: null,
              as_of: "2026-09-15T00:00:00.000Z",
            },
          },
          {
            ...common,
            ...none,
            surface: "ledger-rpc",
            method: "chain_getBlock",
            request_id: "free",
            used_cu_milli: 0,
            outcome: "complete",
          },
        ],
      );
    });

    test("a row has the counts of cached and reasoning tokens if classes of tokens have prices", async (t) => {
      const gateways = await open(t);
      const key = await createKey(gateways, "enterprise");
      const counts = { cachedTokens: 3, reasoningTokens: 4 };
      await charge(gateways.one, key, [
        { ...chat, ...counts, pricing: classPricing },
        { ...chat, pricing: classPricing },
        chat,
      ]);
      const { rows } = await exported(gateways);
      assert.deepEqual(
        rows.map((row) => [row["cached_tokens"], row["reasoning_tokens"]]),
        [
          [3, 4],
          [0, 0],
          [undefined, undefined],
        ],
      );
      assert.partialDeepStrictEqual(rows[0]?.["pricing"], { classes });
    });

    test("ids are distinct, have the format chg_…, and are the same in every export and after a restart", async (t) => {
      const gateways = await open(t);
      const key = await createKey(gateways, "enterprise");
      await charge(gateways.one, key, [block, block, block]);
      await charge(gateways.other, key, [block]);
      const first = await exported(gateways);
      assert.equal(new Set(ids(first)).size, 4);
      assert.ok(ids(first).every((id) => /^chg_[0-9a-f]+_\d+_\d+$/.test(id)));
      assert.deepEqual(await exported(gateways, "--json"), first);
      await gateways.pass(0);
      await charge(gateways.one, key, [block]);
      const more = await exported(gateways);
      assert.deepEqual(more.rows.slice(0, 4), first.rows);
      assert.equal(new Set(ids(more)).size, 5);
    });

    test("a range includes its start and excludes its end", async (t) => {
      const gateways = await open(t);
      const first = await chargeByTheHour(gateways, 4);
      const range = async (from: number, to: number): Promise<unknown[]> =>
        costs(await exported(gateways, "--from", iso(from), "--to", iso(to)));
      assert.deepEqual(costs(await exported(gateways)), [1, 2, 3, 4]);
      assert.deepEqual(costs(await exported(gateways, "--from", iso(first + hour))), [2, 3, 4]);
      assert.deepEqual(costs(await exported(gateways, "--to", iso(first + hour))), [1]);
      assert.deepEqual(await range(first + hour, first + 3 * hour), [2, 3]);
      assert.deepEqual(await range(first + day, first + 2 * day), []);
      assert.deepEqual(await range(first + 3 * hour, first), []);
      const { rows } = await exported(gateways);
      const exact = Date.parse(String(rows[1]?.["time"]));
      assert.deepEqual(await range(exact, exact + 1), [2]);
      assert.deepEqual(await range(exact - 1, exact), []);
    });

    test("an export continues after the position of an earlier one, without a gap and without a repetition", async (t) => {
      const gateways = await open(t);
      const key = await createKey(gateways, "enterprise");
      await charge(gateways.one, key, [block, { ...block, costMilliCu: 11 }]);
      const first = await exported(gateways);
      assert.deepEqual(costs(await exported(gateways, "--after", first.position)), []);
      await charge(gateways.other, key, [{ ...block, costMilliCu: 12 }]);
      await gateways.pass(hour);
      await charge(gateways.one, key, [{ ...block, costMilliCu: 13 }]);
      const rest = await exported(gateways, "--after", first.position);
      assert.deepEqual(costs(rest), [12, 13]);
      const all = await exported(gateways);
      assert.deepEqual(ids(all).toSorted(), [...ids(first), ...ids(rest)].toSorted());
    });

    test("an export as CSV has a header line, fixed columns, and no formulas", async (t) => {
      const gateways = await open(t);
      const key = await createKey(gateways, "enterprise");
      await charge(gateways.one, key, [chat], { requestId: '=1+"2"', agent });
      const { rows } = await exported(gateways);
      const { code, out } = await gateways.run("usage", "export", "--format", "csv");
      assert.equal(code, 0);
      const head =
        "id,time,workspace_id,key_id,surface,method,model,request_id,used_cu_milli,input_tokens,output_tokens,estimated,outcome\r";
      const { id, time } = rows[0] ?? {};
      const row = `${String(id)},${String(time)},${key.workspaceId},${key.keyId},chat,completions,A/b-1,"'=1+""2""",70,5,6,true,clientLeft\r`;
      assert.deepEqual(out, [head, row]);
    });

    test("a charge that failed or was released has no row", async (t) => {
      const gateways = await open(t);
      const key = await createKey(gateways, "enterprise");
      const caller = await gateways.one.accounts.identify(`Bearer ${key.text}`);
      assert.ok(caller.kind === "key");
      const about = { requestId: "r", surface: "chat", streamed: true };
      const [released, failed] = [
        await gateways.one.metering.reserve(caller, 5, about),
        await gateways.one.metering.reserve(caller, 5, about),
      ];
      assert.ok(released.kind === "reserved" && failed.kind === "reserved");
      released.release();
      await assert.rejects(failed.settle([{ ...chat, costMilliCu: 1.5 }]), RangeError);
      await charge(gateways.one, key, [block]);
      await gateways.pass(0);
      assert.deepEqual(costs(await exported(gateways)), [10]);
    });

    test("rows are in the order of their charges, however many there are", async (t) => {
      const gateways = await open(t);
      const key = await createKey(gateways, "enterprise");
      for (let turn = 0; turn < 3; turn++) {
        const lines = Array.from({ length: 200 }, (_, n) => ({
          ...block,
          costMilliCu: 200 * turn + n,
        }));
        await charge(gateways.one, key, lines);
      }
      const all = Array.from({ length: 600 }, (_, n) => n);
      assert.deepEqual(costs(await exported(gateways)), all);
    });
  });
}
