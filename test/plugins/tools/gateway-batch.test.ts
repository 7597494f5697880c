/** gateway_batch: its five rules, on the catalogue with a manual clock. */
import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import type { ToolsHooks } from "sluice-gateway/plugin";
import { toolFailure, type ToolOutcome } from "sluice-gateway/services";
import { testTools } from "../../../plugins/contracts/testing.ts";
import gatewayBatch from "../../../plugins/tools/gateway-batch/index.ts";
import { caller, settled, tool, type Caller } from "./tool-catalogue/fixture.ts";

const raw = '{"n":12345678901234567890,"n":1.0}';
const large = `"${"x".repeat(13 * 1024 * 1024)}"`;
const others = [
  tool(),
  tool({ name: "guarded", capability: "docs:read" }),
  tool({ name: "strict", inputSchema: { type: "object", required: ["a"] } }),
  tool({ name: "fails", call: () => toolFailure("GATEWAY_NOT_FOUND", 'no "such" block') }),
  tool({ name: "writes", write: true }),
  tool({ name: "raw", call: () => ({ ok: true, json: raw }) }),
  tool({ name: "hanging", call: () => new Promise(() => {}) }),
  tool({ name: "large", call: () => ({ ok: true, json: large }) }),
];

const tested = await testTools({
  ...gatewayBatch,
  async start(options: object, host): Promise<ToolsHooks> {
    const { tools } = await gatewayBatch.start(options, host);
    return { tools: [...others, ...tools] };
  },
});
after(() => tested[Symbol.asyncDispose]());

const batch = async (input: object, by: Caller = caller()): Promise<ToolOutcome> =>
  tested.catalogue.call("gateway_batch", input, by);
const item = (name: string, params: object = {}) => ({ tool: name, params });
const codeOf = (outcome: ToolOutcome): string => (outcome.ok ? "ok" : outcome.code);
function contentOf(outcome: ToolOutcome): unknown {
  assert(outcome.ok, JSON.stringify(outcome));
  return JSON.parse(outcome.json);
}

describe("gateway_batch", () => {
  it("inserts results unchanged", async () => {
    const outcome = await batch({ calls: [item("raw")] });
    assert.equal(outcome.ok && outcome.json, `[{"tool":"raw","content":${raw},"usedCUMilli":100}]`);
  });

  it("accepts 20 calls and refuses 21, whatever they are", async () => {
    const of = (n: number, one: unknown = item("echo")) => ({
      calls: Array.from({ length: n }, () => one),
    });
    const outcome = await batch(of(20));
    assert.equal(outcome.ok && outcome.usedCUMilli, 2000);
    for (const input of [
      of(21),
      of(21, null),
      of(1000),
      of(21, item("writes")),
      { ...of(21), other: 1 },
    ]) {
      const by = caller();
      assert.equal(codeOf(await batch(input, by)), "GATEWAY_BATCH_TOO_LARGE");
      assert.deepEqual(by.charge.log, []);
    }
  });

  it("refuses a write tool at any position before anything runs", async () => {
    for (const calls of [
      [item("echo"), item("writes")],
      [item("writes"), item("echo")],
      [item("writes", { confirmation_token: "x" })],
    ]) {
      const by = caller();
      assert.equal(codeOf(await batch({ calls }, by)), "GATEWAY_WRITE_IN_BATCH");
      assert.deepEqual(by.charge.log, ["open 0", "release 0"]);
    }
  });

  it("reports progress after each call", async () => {
    const reported: unknown[] = [];
    const by = caller({ progress: (done, total) => void reported.push([done, total]) });
    await batch({ calls: [item("echo"), item("fails")] }, by);
    assert.deepEqual(reported, [
      [1, 2],
      [2, 2],
    ]);
  });

  it("ends before its time limit and reports the completed calls", async () => {
    const by = caller();
    const calls = [item("echo"), item("hanging"), item("echo")];
    const calling = batch({ calls }, by);
    await settled();
    tested.clock.advance(29_000);
    const outcome = await calling;
    const late = "GATEWAY_TOOL_EXECUTION_ERROR: the batch ran out of time";
    assert.deepEqual(contentOf(outcome), [
      { tool: "echo", content: {}, usedCUMilli: 100 },
      { tool: "hanging", error: late, usedCUMilli: 0 },
      { tool: "echo", error: late, usedCUMilli: 0 },
    ]);
    assert.equal(by.charge.usedMilliCu, 100);
  });

  it("begins no further call once its results are too large", async () => {
    const calls = [item("large"), item("large"), item("large")];
    const outcome = await batch({ calls });
    assert(outcome.ok);
    assert.equal(outcome.usedCUMilli, 200);
    assert.match(outcome.json.slice(-150), /GATEWAY_TOOL_EXECUTION_ERROR: not run/);
  });
});
