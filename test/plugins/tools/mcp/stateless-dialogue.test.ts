/** Prompts, completion, and questions of tools to their client, with the fixtures of the conformance suites. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { TestGateway } from "../../../../plugins/contracts/testing.ts";
import { ask, startMcpGateway, stateless, type Answer } from "../../../e2e/mcp-gateway.ts";

let gateway: TestGateway;
before(async () => {
  const tools = { name: "conformance-fixtures", file: "conformance/fixtures.ts" };
  gateway = await startMcpGateway({ tools });
});
after(() => gateway[Symbol.asyncDispose]());

type More = Parameters<typeof stateless>[2];
const modern = (method: string, params: object, more?: More, key = gateway.key): Promise<Answer> =>
  ask(gateway, { key, ...stateless(method, { ...params }, more) });
const legacy = (method: string, params: object): Promise<Answer> =>
  ask(gateway, { body: { jsonrpc: "2.0", id: 1, method, params } });
const elicits: More = { capabilities: { elicitation: {} } };
const asker = "test_input_required_result_request_state";
const answers = { confirm: { action: "accept", content: { ok: true } } };

test("invalid requests for a prompt return -32602, with status 400 in the stateless revision", async () => {
  const name = "test_prompt_with_arguments";
  for (const params of [
    { name: "nothing" },
    { name },
    { name, arguments: { arg1: "x" } },
    { name, arguments: { arg1: "x", arg2: 2 } },
    { name, arguments: [] },
    { name, arguments: "x" },
  ]) {
    const [old, now] = await Promise.all([
      legacy("prompts/get", params),
      modern("prompts/get", params),
    ]);
    assert.deepEqual([old.status, old.json.error.code], [200, -32602], JSON.stringify(params));
    assert.deepEqual([now.status, now.json.error.code], [400, -32602], JSON.stringify(params));
  }
  assert.equal((await legacy("prompts/get", { name: 5 })).json.error.code, -32602);
});

test("a completion has the values of the prompt, none for other arguments, and returns -32602 for invalid requests", async () => {
  const ref = { type: "ref/prompt", name: "test_prompt_with_arguments" };
  const argument = { name: "arg1", value: "par" };
  for (const [params, values] of [
    [{ ref, argument }, ["paris", "park", "party"]],
    [{ ref, argument: { name: "arg2", value: "" } }, []],
    [{ ref: { ...ref, name: "nothing" }, argument }, []],
    [{ ref: { type: "ref/resource", uri: "test://template/{id}/data" }, argument }, []],
  ] as const) {
    const { result } = (await modern("completion/complete", params)).json;
    assert.deepEqual(result.completion, { values, total: values.length, hasMore: false });
  }
  for (const params of [{}, { ref }, { argument }, { ref, argument: { name: "arg1" } }]) {
    const answer = await modern("completion/complete", params);
    assert.deepEqual([answer.status, answer.json.error.code], [400, -32602]);
    assert.equal((await legacy("completion/complete", params)).json.error.code, -32602);
  }
});

test("a tool that must ask is a failed result for a client that cannot be asked", async () => {
  const { result } = (await legacy("tools/call", { name: asker })).json;
  assert.equal(result.isError, true);
  assert.equal(result._meta.errorCode, "GATEWAY_INVALID_PARAMS");
  const plain = await ask(gateway, { body: { tool: asker } });
  assert.equal(plain.json.isError, true);
  const prompt = await legacy("prompts/get", { name: "test_input_required_result_prompt" });
  assert.equal(prompt.json.error.code, -32602);
});

test("a question that needs an undeclared capability returns 400, -32021 with the missing capability", async () => {
  for (const [method, name] of [
    ["tools/call", asker],
    ["prompts/get", "test_input_required_result_prompt"],
  ] as const) {
    const answer = await modern(method, { name });
    assert.equal(answer.status, 400);
    assert.equal(answer.json.error.code, -32021);
    assert.deepEqual(answer.json.error.data, { requiredCapabilities: { elicitation: {} } });
  }
});

test("the state of a tool is accepted only for the same call of the same key", async () => {
  const first = (await modern("tools/call", { name: asker }, elicits)).json.result;
  const { requestState } = first;
  assert.ok(!requestState.includes("kept"));
  const repeated = { name: asker, inputResponses: answers, requestState };
  const done = await modern("tools/call", repeated, elicits);
  assert.equal(done.json.result.content[0].text, "state-ok");
  const other = await gateway.issue({});
  const refused = [
    await modern("tools/call", repeated, elicits, other.key),
    await modern("tools/call", { ...repeated, requestState: `${requestState}x` }, elicits),
    await modern("tools/call", { ...repeated, requestState: 5 }, elicits),
    await modern("tools/call", { ...repeated, name: "test_simple_text" }, elicits),
    await modern("prompts/get", { ...repeated, name: "test_simple_prompt" }, elicits),
  ];
  for (const answer of refused) {
    assert.deepEqual([answer.status, answer.json.error.code], [400, -32602]);
  }
});
