/**
 * The plain protocol of `/mcp`, a call and a result without an envelope; and the checks before any message is read:
 * origins, hosts, keys, sizes, content types; and the server card.
 */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { TestGateway } from "../../../../plugins/contracts/testing.ts";
import { ask, startMcpGateway, type Answer } from "../../../e2e/mcp-gateway.ts";
import { seen } from "../../../e2e/mcp-tools.ts";

let gateway: TestGateway;
let named: TestGateway;
before(async () => {
  gateway = await startMcpGateway({ account: { capabilities: ["ledger:write", "docs:read"] } });
  named = await startMcpGateway({
    mcp: '{ origins: ["https://app.example.com"], hosts: [gateway.example.com] }',
  });
});
after(async () => {
  await gateway[Symbol.asyncDispose]();
  await named[Symbol.asyncDispose]();
});

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

const ping = { jsonrpc: "2.0", id: 1, method: "ping" };
const send = (headers: Record<string, string>, to = gateway): Promise<Answer> =>
  ask(to, { body: ping, headers });

function assertForbidden(answer: Answer, what: string): void {
  assert.equal(answer.status, 403, what);
  assert.equal(answer.json.error_code, "GATEWAY_PERMISSION_DENIED");
}

test("only pages on loopback may call, with any port", async () => {
  for (const origin of [
    "http://localhost",
    "http://localhost:5173",
    "https://LOCALHOST:1",
    "http://app.localhost:3000",
    "http://127.0.0.1:8080",
    "http://127.9.9.9",
    "http://[::1]:6274",
  ]) {
    assert.equal((await send({ origin })).status, 200, origin);
  }
  for (const origin of [
    "https://example.com",
    "http://localhost.example.com",
    "http://127.0.0.1.example.com",
    "http://example.com:127",
    "http://[::2]",
    "http://127.0.0.1000",
    "http://1270.0.0.1",
    "null",
    "localhost",
    "",
  ]) {
    assertForbidden(await send({ origin }), origin);
  }
});

test("configured origins replace the loopback origins", async () => {
  const host = "gateway.example.com";
  assert.equal((await send({ host, origin: "https://app.example.com" }, named)).status, 200);
  assert.equal((await send({ host, origin: "HTTPS://APP.example.com" }, named)).status, 200);
  for (const origin of [
    "http://app.example.com",
    "https://app.example.com:8443",
    "http://localhost",
  ]) {
    assertForbidden(await send({ host, origin }, named), origin);
  }
});

test("clients on this machine must use a loopback name, because another name was rebound", async () => {
  for (const host of ["localhost", "localhost:80", "127.0.0.1", "[::1]:8080"]) {
    assert.equal((await send({ host })).status, 200, host);
  }
  for (const host of ["example.com", "evil.example.com:8080", "localhost.example.com"]) {
    assertForbidden(await send({ host }), host);
  }
});

test("only configured hosts are accepted", async () => {
  assert.equal((await send({ host: "gateway.example.com:8443" }, named)).status, 200);
  assert.equal((await send({ host: "GATEWAY.example.com" }, named)).status, 200);
  assertForbidden(await send({ host: "localhost" }, named), "localhost");
});

test("without a valid key nothing is read: 401 without a reference to OAuth", async () => {
  for (const body of [ping, "{", { tool: "echo" }]) {
    const answer = await ask(gateway, {
      key: null,
      body,
      headers: { "content-type": "application/json" },
    });
    assert.equal(answer.status, 401);
    assert.equal(answer.json.error_code, "GATEWAY_UNAUTHORIZED");
    assert.equal(answer.headers["www-authenticate"], 'Bearer realm="gateway"');
  }
});

test("every OAuth path returns a plain 404 in JSON", async () => {
  const names = ["oauth-protected-resource", "oauth-authorization-server"];
  const paths = [...names.flatMap((name) => [name, `${name}/mcp`]), "openid-configuration"];
  for (const path of paths) {
    const answer = await ask(gateway, { method: "GET", path: `/.well-known/${path}`, key: null });
    assert.equal(answer.status, 404, path);
    assert.equal(answer.json.error_code, "GATEWAY_NOT_FOUND");
  }
});

test("GET and PUT return 405 with the allowed methods; a trailing slash is not redirected", async () => {
  for (const method of ["GET", "PUT"]) {
    const answer = await ask(gateway, { method });
    assert.equal(answer.status, 405);
    assert.equal(answer.headers.allow, "POST, DELETE");
  }
  assert.equal((await ask(gateway, { path: "/mcp/", body: ping })).status, 404);
});

test("another content type returns 415, JSON may have parameters, and a body above 1 MiB returns 413", async () => {
  for (const type of ["text/plain", "application/jsonp", "application/x-www-form-urlencoded", ""]) {
    const answer = await send({ "content-type": type });
    assert.equal(answer.status, 415, type);
    assert.equal(answer.json.error_code, "GATEWAY_INVALID_PARAMS");
  }
  for (const type of ["application/json; charset=utf-8", "Application/JSON"]) {
    assert.equal((await send({ "content-type": type })).status, 200, type);
  }
  const filled = (bytes: number): string => JSON.stringify(ping).padEnd(bytes);
  const headers = { "content-type": "application/json" };
  assert.equal((await ask(gateway, { headers, body: filled(1 << 20) })).status, 200);
  const large = await ask(gateway, { headers, body: filled((1 << 20) + 1) });
  assert.equal(large.status, 413);
  assert.equal(large.json.error_code, "GATEWAY_INVALID_PARAMS");
});

test("deep nesting is answered without a crash", async () => {
  const depth = 100_000;
  const body = `{"jsonrpc":"2.0","id":1,"method":"ping","params":${"[".repeat(depth)}${"]".repeat(depth)}}`;
  const answer = await ask(gateway, { body, headers: { "content-type": "application/json" } });
  assert.ok([200, 400].includes(answer.status));
  assert.ok("error" in answer.json);
});

test("the server card lists the endpoint and its revisions, needs no key, and is cacheable", async () => {
  const card = (headers = {}): Promise<Answer> =>
    ask(gateway, { method: "GET", path: "/mcp/server-card", key: gateway.key, headers });
  const answer = await card({ host: "gate.example.com" });
  assert.equal(answer.status, 200);
  assert.equal(answer.headers["content-type"], "application/mcp-server-card+json");
  assert.equal(answer.headers["access-control-allow-origin"], "*");
  const { remotes, ...rest } = answer.json;
  const [remote] = remotes;
  assert.equal(remote.url, "http://gate.example.com/mcp");
  assert.equal(remote.headers[0].isSecret, true);
  const etag = String(answer.headers.etag);
  const known = await card({ host: "gate.example.com", "if-none-match": etag });
  assert.deepEqual([known.status, known.text], [304, ""]);
  const discovered = await ask(gateway, {
    headers: { "mcp-protocol-version": "2026-07-28", "mcp-method": "server/discover" },
    body: {
      jsonrpc: "2.0",
      id: 1,
      method: "server/discover",
      params: {
        _meta: {
          "io.modelcontextprotocol/protocolVersion": "2026-07-28",
          "io.modelcontextprotocol/clientCapabilities": {},
        },
      },
    },
  });
  const { result } = discovered.json;
  const server = result._meta["io.modelcontextprotocol/serverInfo"];
  assert.deepEqual(remote.supportedProtocolVersions, result.supportedVersions);
  assert.deepEqual(
    [rest.name, rest.title, rest.version],
    [server.name, server.title, server.version],
  );
});
