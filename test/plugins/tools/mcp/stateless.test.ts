/**
 * `/mcp` in revision 2026-07-28: metadata of every request, discovery, confirmation by a person, clients that leave.
 */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { TestGateway } from "../../../../plugins/contracts/testing.ts";
import {
  ask,
  eventsOf,
  startMcpGateway,
  stateless,
  type Answer,
  type Parsed,
} from "../../../e2e/mcp-gateway.ts";
import { seen } from "../../../e2e/mcp-tools.ts";

let gateway: TestGateway;
before(async () => {
  gateway = await startMcpGateway({
    account: { capabilities: ["ledger:write", "docs:read"] },
    mcp: "{ name: com.example/gate, title: Gate, instructions: Ask nicely. }",
  });
});
after(() => gateway[Symbol.asyncDispose]());

type More = Parameters<typeof stateless>[2];
const send = (method: string, params?: object, more?: More, key = gateway.key): Promise<Answer> =>
  ask(gateway, { key, ...stateless(method, { ...params }, more) });
const echo = { name: "echo", arguments: { text: "x" } };
const serverInfo = { name: "com.example/gate", title: "Gate" };
const serverKey = "io.modelcontextprotocol/serverInfo";

test("server/discover returns revisions, capabilities and server info", async () => {
  const answer = await send("server/discover");
  assert.equal(answer.status, 200);
  assert.equal(answer.headers["mcp-session-id"], undefined);
  const { _meta: meta, ...result } = answer.json.result;
  assert.deepEqual(result, {
    resultType: "complete",
    supportedVersions: ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"],
    capabilities: { tools: {}, logging: {}, resources: {} },
    instructions: "Ask nicely.",
    ttlMs: 60000,
    cacheScope: "private",
  });
  const { version, ...rest } = meta[serverKey];
  assert.deepEqual(rest, serverInfo);
  assert.match(version, /^\d+\.\d+\.\d+/);
});

test("results contain their type, server and cost, and lists their lifetime", async () => {
  const { result } = (await send("tools/call", echo)).json;
  assert.equal(result.resultType, "complete");
  const { timestamp, latencyMs, [serverKey]: server, ...fixed } = result._meta;
  assert.deepEqual(fixed, {
    usedCUMilli: 100,
    toolName: "echo",
    genAIRequestModel: "",
    genAIUsageInputTokens: 0,
    genAIUsageOutputTokens: 0,
  });
  assert.ok(timestamp && server && latencyMs >= 0);
  const failed = (await send("tools/call", { name: "nothing" })).json.result;
  assert.equal(failed.isError, true);
  assert.equal(failed.resultType, "complete");
  assert.equal(failed._meta.errorCode, "GATEWAY_TOOL_NOT_FOUND");
  for (const method of ["tools/list", "resources/list", "resources/templates/list"]) {
    const list = (await send(method)).json.result;
    assert.deepEqual(
      [list.resultType, list.ttlMs, list.cacheScope],
      ["complete", 60000, "private"],
    );
    assert.equal((await send(method, { cursor: "" })).status, 400);
  }
  const read = (await send("resources/read", { uri: "doc://guide" })).json.result;
  assert.deepEqual([read.contents[0].text, read.cacheScope], ["# Guide", "private"]);
});

test("headers that are missing or differ from the body return 400, -32020, and call nothing", async () => {
  const wrong: Readonly<Record<string, readonly (string | undefined)[]>> = {
    "mcp-protocol-version": [undefined, "2025-11-25"],
    "mcp-method": [undefined, "tools/list", "Tools/Call"],
    "mcp-name": [
      undefined,
      "write",
      "Echo",
      "=?base64?ZWNob!?=",
      "=?base64?ZWNobw?=",
      "=?base64?d3JpdGU=?=",
    ],
  };
  const { headers, body } = stateless("tools/call", echo, { id: "i" });
  for (const [name, values] of Object.entries(wrong)) {
    for (const value of values) {
      const { [name]: _, ...rest } = headers;
      const sent = value === undefined ? rest : { ...rest, [name]: value };
      const answer = await ask(gateway, { body, headers: sent });
      assert.equal(answer.status, 400, `${name}: ${value}`);
      assert.deepEqual([answer.json.id, answer.json.error.code], ["i", -32020]);
      assert.equal(answer.headers["x-used-cu-milli"], "0");
    }
  }
});

test("a name in base64 is read; a session id is ignored", async () => {
  const headers = { "mcp-name": "=?base64?ZWNobw==?=", "mcp-session-id": "nonsense" };
  const answer = await send("tools/call", echo, { headers });
  assert.equal(answer.status, 200);
  assert.equal(answer.headers["mcp-session-id"], undefined);
});

test("an unknown revision returns 400, -32022 with the supported revisions", async () => {
  for (const version of ["2099-01-01", "2025-11-25", "draft"]) {
    const { headers, body } = stateless("tools/list", {
      _meta: { "io.modelcontextprotocol/protocolVersion": version },
    });
    const answer = await ask(gateway, {
      body,
      headers: { ...headers, "mcp-protocol-version": version },
    });
    assert.equal(answer.status, 400);
    assert.equal(answer.json.error.code, -32022);
    assert.deepEqual(answer.json.error.data, {
      supported: ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"],
      requested: version,
    });
  }
});

test("incomplete metadata returns 400, -32602", async () => {
  for (const meta of [
    { "io.modelcontextprotocol/clientCapabilities": undefined },
    { "io.modelcontextprotocol/clientCapabilities": [] },
    { "io.modelcontextprotocol/clientCapabilities": "all" },
    { "io.modelcontextprotocol/protocolVersion": 20260728 },
    { "io.modelcontextprotocol/protocolVersion": null },
  ]) {
    const answer = await send("tools/list", { _meta: meta });
    assert.deepEqual([answer.status, answer.json.error.code], [400, -32602], JSON.stringify(meta));
  }
  const anonymous = await send("tools/list", {
    _meta: { "io.modelcontextprotocol/clientInfo": undefined },
  });
  assert.equal(anonymous.status, 200);
});

test("methods of other revisions and unknown methods return 404, -32601", async () => {
  const gone = ["initialize", "ping", "logging/setLevel", "resources/subscribe", "tasks/get"];
  for (const method of [...gone, "subscriptions/listen", "prompts/list", "nothing", ""]) {
    const answer = await send(method);
    assert.deepEqual([answer.status, answer.json.error.code], [404, -32601], method);
    assert.equal(answer.json.id, 1);
  }
});

test("invalid params of a call return 400, -32602; a notification returns 202; an invalid message 400", async () => {
  for (const params of [{}, { name: 1 }, { name: null }]) {
    const answer = await send("tools/call", params);
    // The header cannot repeat a name that is missing.
    assert.equal(answer.status, 400);
    assert.ok([-32602, -32020].includes(answer.json.error.code));
  }
  const { headers, body } = stateless("notifications/cancelled");
  const { id: _, ...notification } = body as { id: unknown };
  const silent = await ask(gateway, { headers, body: notification });
  assert.deepEqual([silent.status, silent.text], [202, ""]);
  const wrong = await ask(gateway, { headers, body: { ...body, jsonrpc: "1" } });
  assert.deepEqual([wrong.status, wrong.json.error.code], [400, -32600]);
  const missing = await send("resources/read", { uri: "doc://nothing" });
  assert.deepEqual([missing.status, missing.json.error.code], [400, -32602]);
});

const write = { name: "write", arguments: { to: "Alice" } };
const forms = { capabilities: { elicitation: {} } };
const answerOf = (action: string, content?: object): object => ({ confirm: { action, content } });

async function question(more: More = forms): Promise<Parsed> {
  return (await send("tools/call", write, more)).json.result;
}

test("a write tool asks the client's user if the client can show forms", async () => {
  for (const elicitation of [{}, { form: {} }, { form: {}, url: {} }]) {
    const result = await question({ capabilities: { elicitation } });
    assert.equal(result.resultType, "input_required");
    const { method, params } = result.inputRequests.confirm;
    assert.equal(method, "elicitation/create");
    assert.equal(params.mode, "form");
    assert.match(params.message, /write[^]*Balances[^]*transfer[^]*Alice/);
    assert.deepEqual(params.requestedSchema.required, ["confirm"]);
    assert.equal(typeof result.requestState, "string");
  }
  for (const capabilities of [{}, { elicitation: { url: {} } }, { elicitation: true }]) {
    const result = await question({ capabilities });
    assert.equal(result._meta.errorCode, "GATEWAY_CONFIRMATION_REQUIRED");
    assert.equal(typeof JSON.parse(result.content[0].text).confirmation_token, "string");
  }
});

test("a call that the user accepts runs once", async () => {
  const { requestState } = await question();
  const repeated = {
    ...write,
    inputResponses: { ...answerOf("accept", { confirm: true }), other: 1 },
    requestState,
  };
  const earlier = seen.writes.length;
  const done = (await send("tools/call", repeated, forms)).json.result;
  assert.equal(done._meta.usedCUMilli, 1000);
  assert.equal(seen.writes.length, earlier + 1);
  const again = (await send("tools/call", repeated, forms)).json.result;
  assert.equal(again._meta.errorCode, "GATEWAY_CONFIRMATION_EXPIRED");
  assert.equal(seen.writes.length, earlier + 1);
});

test("a declined call fails, a dismissed one returns the token, and without an answer the question is repeated", async () => {
  const { requestState } = await question();
  const repeat = async (inputResponses: unknown): Promise<Parsed> =>
    (await send("tools/call", { ...write, inputResponses, requestState }, forms)).json.result;
  for (const said of [
    answerOf("decline"),
    answerOf("accept", { confirm: false }),
    answerOf("accept"),
  ]) {
    const result = await repeat(said);
    assert.equal(result.isError, true);
    assert.equal(result._meta.errorCode, "GATEWAY_PERMISSION_DENIED");
  }
  const cancelled = await repeat(answerOf("cancel"));
  assert.equal(cancelled._meta.errorCode, "GATEWAY_CONFIRMATION_REQUIRED");
  const { confirmation_token: token } = JSON.parse(cancelled.content[0].text);
  const confirmed = { ...write, arguments: { ...write.arguments, confirmation_token: token } };
  assert.equal((await send("tools/call", confirmed, forms)).json.result._meta.toolName, "write");
  for (const said of [{}, { other: {} }, [], "x", null, { confirm: "yes" }, answerOf("later")]) {
    assert.equal((await repeat(said)).resultType, "input_required", JSON.stringify(said));
  }
});

test("an answer for other arguments, another key or with an altered state runs nothing", async () => {
  const { requestState } = await question();
  const inputResponses = answerOf("accept", { confirm: true });
  const earlier = seen.writes.length;
  const other = await gateway.issue({ capabilities: ["ledger:write"] });
  const results = await Promise.all([
    send(
      "tools/call",
      { name: "write", arguments: { to: "Bob" }, inputResponses, requestState },
      forms,
    ),
    send("tools/call", { ...write, inputResponses, requestState: `${requestState}x` }, forms),
    send("tools/call", { ...write, inputResponses, requestState }, forms, other.key),
  ]);
  for (const { json } of results) {
    assert.equal(json.result._meta.errorCode, "GATEWAY_CONFIRMATION_EXPIRED");
  }
  assert.equal(seen.writes.length, earlier);
});

test("a reached credit limit returns 429 with the canonical envelope, also if progress was requested", async () => {
  const poor = await gateway.issue({ cuLimit24hMilli: 50 });
  const counting = { name: "counts", _meta: { progressToken: 1 } };
  for (const call of [echo, counting]) {
    const answer = await send("tools/call", call, {}, poor.key);
    assert.equal(answer.status, 429);
    assert.equal(answer.json.error_code, "GATEWAY_CU_LIMIT_EXCEEDED");
  }
});

test("log messages of tools are sent from the level in the request on, and not at all without a level", async () => {
  const levelKey = "io.modelcontextprotocol/logLevel";
  const call = (meta: object): Promise<Answer> => send("tools/call", { name: "logs", _meta: meta });
  const silent = await call({});
  assert.equal(silent.headers["content-type"], "application/json");
  assert.equal(silent.json.result._meta.toolName, "logs");
  const events = eventsOf((await call({ [levelKey]: "notice" })).text);
  assert.deepEqual(
    events.map((event) => event.params?.level),
    ["warning", "error", undefined],
  );
  const both = eventsOf((await call({ [levelKey]: "error", progressToken: 1 })).text);
  assert.deepEqual(both.length, 2);
  for (const level of ["loud", 3, null]) {
    const refused = await call({ [levelKey]: level });
    assert.deepEqual([refused.status, refused.json.error.code], [400, -32602]);
  }
});
