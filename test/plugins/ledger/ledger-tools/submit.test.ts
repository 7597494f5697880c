/** The tool that submits extrinsics: what is confirmed, and how often the node is called. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { CallSummary } from "sluice-gateway/services";
import { hash } from "../ledger/fixture.ts";
import { toolCaller } from "../../tools/tool-catalogue/caller.ts";
import {
  failureOf,
  resultOf,
  scriptedTools,
  undecoded,
  type Said,
  type ScriptedTools,
  type ToolsScript,
} from "./chain.ts";

const tool = "ledger_submitExtrinsic";
const input = { extrinsic: "0x0400Ab" };
const summary: CallSummary = {
  pallet: "Balances",
  method: "transfer_keep_alive",
  signer: "5Alice",
  args: { value: "1000000000000" },
};
const decoder = { summary: { ok: true, summary } } as const;
const options = { write: true } as const;
const submitting = (said: Said): ToolsScript => ({
  node: { author_submitExtrinsic: said },
  decoder,
  options,
});

async function tokenOf(tools: ScriptedTools): Promise<string> {
  const asked = await tools.call(tool, input);
  assert(!asked.ok && asked.code === "GATEWAY_CONFIRMATION_REQUIRED", JSON.stringify(asked));
  // The tests of the catalogue check the token.
  return asked.details?.["confirmation_token"] as string;
}

describe("ledger_submitExtrinsic", () => {
  it("first returns the effect of the extrinsic, and submits nothing", async () => {
    const tools = await scriptedTools(submitting(`"${hash(1)}"`));
    const caller = toolCaller();
    const asked = await tools.call(tool, input, caller);
    assert(!asked.ok);
    assert.equal(asked.code, "GATEWAY_CONFIRMATION_REQUIRED");
    assert.deepEqual(asked.details?.["summary"], summary);
    assert.deepEqual(tools.decoding, ["summary 0400ab"]);
    assert.deepEqual(tools.asked, []);
    assert.deepEqual(caller.charged, []);
  });

  it("then submits it once, as it was sent, and returns its hash", async () => {
    const tools = await scriptedTools(submitting(`"${hash(1)}"`));
    const confirmation_token = await tokenOf(tools);
    const caller = toolCaller();
    const done = await tools.call(tool, { ...input, confirmation_token }, caller);
    assert.deepEqual(resultOf(done), { hash: hash(1) });
    assert.deepEqual(tools.asked, ['author_submitExtrinsic ["0x0400Ab"]']);
    assert.deepEqual(tools.retried, [false]);
    assert.deepEqual(caller.charged, [`${tool} 10000`]);
  });

  it("submits it again for every confirmation: nothing is cached or shared", async () => {
    const tools = await scriptedTools(submitting(`"${hash(1)}"`));
    const tokens = [await tokenOf(tools), await tokenOf(tools)];
    const done = await Promise.all(
      tokens.map((confirmation_token) => tools.call(tool, { ...input, confirmation_token })),
    );
    for (const outcome of done) assert.deepEqual(resultOf(outcome), { hash: hash(1) });
    assert.equal(tools.asked.length, 2);
  });

  it("does not ask to confirm bytes that are not an extrinsic", async () => {
    const script = { ...submitting("null"), decoder: { summary: undecoded("undecodable") } };
    const tools = await scriptedTools(script);
    assert.deepEqual(failureOf(await tools.call(tool, input)), [
      "GATEWAY_INVALID_PARAMS",
      "extrinsic: does not match the runtime of this chain",
    ]);
    const gone = { ...script, decoder: { summary: undecoded("unreachable") } };
    assert.deepEqual(failureOf(await (await scriptedTools(gone)).call(tool, input)), [
      "GATEWAY_TOOL_EXECUTION_ERROR",
      "no node answered",
    ]);
  });

  const refused = "the node refused the extrinsic";
  const unsure = "the node did not answer: the extrinsic may or may not be in its pool";
  const answers: readonly (readonly [Said, string])[] = [
    [
      { error: '{"code":1010,"message":"Invalid Transaction","data":"secret"}' },
      `${refused}: it is invalid: outdated nonce, wrong signature, unpayable fee, or the like`,
    ],
    [{ error: '{"code":1013,"message":"x"}' }, `${refused}: it is in the pool already`],
    [{ error: '{"code":"1013","message":"secret"}' }, refused],
    [{ error: '{"code":-32602,"message":"secret"}' }, refused],
    [{ error: '{"message":"{\\"invalid\\":{\\"stale\\":null}}"}' }, refused],
    [{ failed: "unreachable" }, unsure],
    [{ failed: "timeout" }, unsure],
    ["null", unsure],
    ['"0x01"', unsure],
    ["{}", unsure],
  ];
  for (const [said, message] of answers) {
    it(`fails with "${message}" and costs nothing if the node answers ${JSON.stringify(said)}`, async () => {
      const tools = await scriptedTools(submitting(said));
      const confirmation_token = await tokenOf(tools);
      const caller = toolCaller();
      const failed = await tools.call(tool, { ...input, confirmation_token }, caller);
      assert.deepEqual(failureOf(failed), ["GATEWAY_TOOL_EXECUTION_ERROR", message]);
      assert.deepEqual(caller.charged, []);
      assert.equal(caller.open(), 0);
      assert.equal(tools.asked.length, 1);
    });
  }
});
