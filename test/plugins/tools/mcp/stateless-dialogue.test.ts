/**
 * Revision 2026-07-28 with the fixtures of the conformance suites: prompts, completion, questions of tools to their
 * client, and arguments that headers repeat.
 */
import assert from "node:assert/strict";
import { after, before, test, describe, it } from "node:test";
import { Client, StreamableHTTPClientTransport as Transport } from "@modelcontextprotocol/client";
import type { TestGateway } from "../../../../plugins/contracts/testing.ts";
import {
  ask,
  startMcpGateway,
  stateless,
  type Answer,
  type Parsed,
} from "../../../e2e/mcp-gateway.ts";
import { paramHeaders, paramMismatch } from "../../../../plugins/tools/mcp/param-headers.ts";

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
  const { key } = await gateway.issue({ capabilities: ["ledger:read"] });
  const refused = await modern("completion/complete", { ref, argument }, {}, key);
  assert.equal(refused.json.error.data.errorCode, "GATEWAY_PERMISSION_DENIED");
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

describe("the headers of a schema", () => {
  it("are those of members that are reached through `properties` alone", () => {
    const text = (header: unknown): object => ({ type: "string", "x-mcp-header": header });
    const schema = {
      type: "object",
      properties: {
        a: text("Region"),
        b: { type: "object", properties: { c: text("x-C"), d: { type: "string" } } },
        e: { type: "array", items: text("Lost") },
        f: { anyOf: [text("Lost")] },
        g: text(1),
        h: true,
      },
      additionalProperties: text("Lost"),
    };
    assert.deepEqual(paramHeaders(schema), [
      { path: ["a"], header: "mcp-param-region" },
      { path: ["b", "c"], header: "mcp-param-x-c" },
    ]);
    for (const none of [undefined, null, true, {}, { properties: [] }]) {
      assert.deepEqual(paramHeaders(none), []);
    }
  });
});

const hello = Buffer.from("é \n").toString("base64");
const table: readonly [value: unknown, header: string | undefined, agrees: boolean][] = [
  ["eu", "eu", true],
  ["eu", "EU", false],
  ["eu", undefined, false],
  ["eu", "", false],
  ["", "", true],
  ["é \n", `=?base64?${hello}?=`, true],
  ["é", `=?base64?${hello}?=`, false],
  ["a", "=?base64?YQ?=", false],
  ["a", "=?base64?Y!==?=", false],
  ["=?base64?YQ==", "=?base64?YQ==", true],
  ["YQ==", "YQ==", true],
  ["42", "42", true],
  [42, "42", true],
  [42, "42.0", true],
  [42, "43", false],
  [42, "", false],
  [0, " ", false],
  [42, "x", false],
  [true, "true", true],
  [true, "True", false],
  [false, "false", true],
  [false, "", false],
  [null, undefined, true],
  [null, "null", false],
  [undefined, undefined, true],
  [undefined, "eu", false],
  // Neither can be in a header, and the schema refuses both.
  [["eu"], "eu", true],
  [{}, "eu", true],
];

describe("an argument and its header", () => {
  const wanted = [{ path: ["deep", "region"], header: "mcp-param-region" }];
  for (const [value, header, agrees] of table) {
    it(`${JSON.stringify(value)} and ${header} ${agrees ? "agree" : "differ"}`, () => {
      const headers = header === undefined ? {} : { "mcp-param-region": header };
      const found = paramMismatch(wanted, headers, { deep: { region: value } });
      assert.equal(found, agrees ? undefined : "mcp-param-region");
    });
  }

  it("are not compared if the input is not an object", () => {
    for (const input of [undefined, null, [], "x", 1, { deep: "x" }]) {
      assert.equal(paramMismatch(wanted, {}, input), undefined);
    }
  });
});

describe("a call", () => {
  const call = (input: object, headers: Record<string, string>, name = "test_custom_headers") =>
    ask(gateway, stateless("tools/call", { name, arguments: input }, { headers }));

  it("runs if its headers match; otherwise it returns 400, -32020 with the name of the header", async () => {
    const input = { region: "eu", shard: 7, inner: { dry: true } };
    const headers = {
      "mcp-param-region": "eu",
      "mcp-param-shard": "7",
      "mcp-param-dry-run": "true",
    };
    const done = await call(input, headers);
    assert.equal(done.status, 200);
    assert.deepEqual(JSON.parse(done.json.result.content[0].text), input);
    for (const [name, wrong] of Object.entries({
      "mcp-param-region": "us",
      "mcp-param-shard": "8",
      "mcp-param-dry-run": "false",
    })) {
      const answer = await call(input, { ...headers, [name]: wrong });
      assert.deepEqual([answer.status, answer.json.error.code], [400, -32020]);
      assert.ok(answer.json.error.message.includes(name), answer.text);
      assert.equal(answer.headers["x-used-cu-milli"], "0");
    }
  });

  it("in a session does not need these headers", async () => {
    const params = { name: "test_custom_headers", arguments: { region: "eu" } };
    const body = { jsonrpc: "2.0", id: 1, method: "tools/call", params };
    const answer = await ask(gateway, { body });
    assert.equal(answer.json.result.content[0].text, '{"region":"eu"}');
  });

  it("of the official client contains them", async () => {
    const client = new Client(
      { name: "test", version: "1" },
      { versionNegotiation: { mode: { pin: "2026-07-28" } } },
    );
    const requestInit = { headers: { authorization: `Bearer ${gateway.key}` } };
    await client.connect(new Transport(new URL(`${gateway.url}/mcp`), { requestInit }));
    await client.listTools();
    const input = { region: "é", shard: -3, inner: { dry: false } };
    const result: Parsed = await client.callTool({ name: "test_custom_headers", arguments: input });
    assert.deepEqual(JSON.parse(result.content[0].text), input);
    await client.close();
  });
});
