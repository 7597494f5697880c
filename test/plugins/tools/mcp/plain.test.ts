/** The plain protocol of `/mcp`: a call and a result without an envelope. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { TestGateway } from "../../../../plugins/contracts/testing.ts";
import { ask, startMcpGateway, type Answer } from "../../../e2e/mcp-gateway.ts";
import { seen } from "../../../e2e/mcp-tools.ts";

let gateway: TestGateway;
before(async () => {
  gateway = await startMcpGateway({ account: { capabilities: ["ledger:write", "docs:read"] } });
});
after(() => gateway[Symbol.asyncDispose]());

const call = (body: unknown, key?: string): Promise<Answer> =>
  ask(gateway, { body, ...(key !== undefined && { key }) });

test("a call is answered with one text and all seven members of usage metadata", async () => {
  const answer = await call({ tool: "echo", input: { text: 'a "b"\né' } });
  assert.equal(answer.status, 200);
  assert.equal(answer.headers["content-type"], "application/json");
  assert.equal(answer.headers["x-used-cu-milli"], "100");
  const { content, _meta: meta, ...rest } = answer.json;
  assert.deepEqual(rest, {});
  assert.deepEqual(content, [{ type: "text", text: JSON.stringify({ text: 'a "b"\né' }) }]);
  const { timestamp, latencyMs, ...fixed } = meta;
  assert.deepEqual(fixed, {
    usedCUMilli: 100,
    toolName: "echo",
    genAIRequestModel: "",
    genAIUsageInputTokens: 0,
    genAIUsageOutputTokens: 0,
  });
  assert.match(timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.ok(Number.isInteger(latencyMs) && latencyMs >= 0);
});

test("the result of a tool that used a model contains its usage, and its JSON text is unchanged", async () => {
  const { content, _meta: meta } = (await call({ tool: "infer" })).json;
  assert.equal(content[0].text, '{"answer":1.0}');
  assert.equal(meta.genAIRequestModel, 'Acme/"M"-1');
  assert.equal(meta.genAIUsageInputTokens, 3);
  assert.equal(meta.genAIUsageOutputTokens, 4);
});

test("links are omitted, because the plain protocol returns one text only", async () => {
  assert.equal((await call({ tool: "linked" })).json.content.length, 1);
});

const failures: readonly [what: string, body: object, code: string][] = [
  ["an unknown tool", { tool: "nothing", input: {} }, "GATEWAY_TOOL_NOT_FOUND"],
  ["an empty name", { tool: "" }, "GATEWAY_TOOL_NOT_FOUND"],
  ["a name from a prototype", { tool: "constructor" }, "GATEWAY_TOOL_NOT_FOUND"],
  ["a name that is a number", { tool: 5, input: {} }, "GATEWAY_INVALID_PARAMS"],
  ["a name that is null", { tool: null }, "GATEWAY_INVALID_PARAMS"],
  ["a token that is a number", { tool: "echo", confirmation_token: 1 }, "GATEWAY_INVALID_PARAMS"],
  ["no input where some is needed", { tool: "echo" }, "GATEWAY_SCHEMA_VIOLATION"],
];
for (const [what, body, code] of failures) {
  test(`${what} is a failed result with ${code}, which costs nothing and reveals nothing`, async () => {
    const answer = await call(body);
    assert.equal(answer.status, 200);
    assert.equal(answer.headers["x-used-cu-milli"], "0");
    const { content, isError, _meta: meta, ...rest } = answer.json;
    assert.deepEqual(rest, {});
    assert.equal(isError, true);
    assert.deepEqual(meta, { errorCode: code });
    assert.equal(content.length, 1);
    assert.equal(content[0].type, "text");
    assert.ok(content[0].text.length > 0);
    assert.ok(!answer.text.includes("secret"), answer.text);
  });
}

const write = { tool: "write", input: { to: "Alice", amount: 1 } };

async function token(input: object = write.input): Promise<string> {
  const { details } = {
    details: JSON.parse((await call({ ...write, input })).json.content[0].text),
  };
  return details.confirmation_token;
}

test("the first call of a write tool returns 202 with a token, and the second runs it", async () => {
  const first = await call(write);
  assert.equal(first.status, 202);
  // Like every refusal, whose code is in the logs.
  assert.equal(first.headers["x-used-cu-milli"], undefined);
  assert.equal(first.json.isError, true);
  assert.deepEqual(first.json._meta, { errorCode: "GATEWAY_CONFIRMATION_REQUIRED" });
  const details = JSON.parse(first.json.content[0].text);
  assert.deepEqual(Object.keys(details), ["confirmation_token", "expires_at", "summary"]);
  assert.deepEqual(details.summary.args, { to: "Alice" });
  const earlier = seen.writes.length;
  const second = await call({ ...write, confirmation_token: details.confirmation_token });
  assert.equal(second.status, 200);
  assert.equal(second.json._meta.usedCUMilli, 1000);
  assert.deepEqual(seen.writes.slice(earlier), [write.input]);
});

test("the token may be in the input, too", async () => {
  const answer = await call({
    tool: "write",
    input: { amount: 1, to: "Alice", confirmation_token: await token() },
  });
  assert.equal(answer.status, 200);
  assert.equal(answer.json._meta.toolName, "write");
});

test("a token that was used, altered, or issued for other arguments or another key returns 410", async () => {
  const used = await token();
  assert.equal((await call({ ...write, confirmation_token: used })).status, 200);
  const fresh = await token();
  const other = await gateway.issue({ capabilities: ["ledger:write"] });
  const cases: readonly Promise<Answer>[] = [
    call({ ...write, confirmation_token: used }),
    call({ ...write, confirmation_token: `${fresh}x` }),
    call({ ...write, confirmation_token: "" }),
    call({ tool: "write", input: { to: "Bob" }, confirmation_token: fresh }),
    call({ ...write, confirmation_token: fresh }, other.key),
  ];
  for (const answer of await Promise.all(cases)) {
    assert.equal(answer.status, 410, answer.text);
    assert.equal(answer.headers["x-used-cu-milli"], undefined);
    assert.equal(answer.json._meta.errorCode, "GATEWAY_CONFIRMATION_EXPIRED");
  }
});
