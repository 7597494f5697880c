/** `/mcp` in the revisions with `initialize`: versions, sessions, messages of every shape, arrays, documents. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { startGateway } from "../../../../src/gateway/gateway.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import type { TestGateway } from "../../../../plugins/contracts/testing.ts";
import {
  ask,
  eventsOf,
  mcpPipeline,
  mcpTools,
  startMcpGateway,
  type Answer,
  type McpRequest,
  type Parsed,
} from "../../../e2e/mcp-gateway.ts";
import { silentLog } from "../../../test-log.ts";

const clock = manualClock();
let gateway: TestGateway;
before(async () => {
  const second = `- { path: /second, methods: [POST], run: [{ use: agents }], to: { mcp: { title: B } } }`;
  const pipeline = `${mcpPipeline("{}", mcpTools)}  ${second}\n`;
  gateway = await startMcpGateway({ clock, pipeline, account: { capabilities: ["docs:read"] } });
});
after(() => gateway[Symbol.asyncDispose]());

const send = (body: unknown, more: McpRequest = {}): Promise<Answer> =>
  ask(gateway, { body, ...more });
const rpc = (method: string, params?: unknown, id: unknown = 1): object => ({
  jsonrpc: "2.0",
  id,
  method,
  ...(params !== undefined && { params }),
});
const echo = rpc("tools/call", { name: "echo", arguments: { text: "x" } });
const both = { accept: "application/json, text/event-stream" };
const version = (text: string): Record<string, string> => ({ "mcp-protocol-version": text });
const inSession = (id: string): Record<string, string> => ({ "mcp-session-id": id });

async function begin(revision = "2025-11-25", key = gateway.key): Promise<string> {
  const answer = await send(rpc("initialize", { protocolVersion: revision }), { key });
  const id = answer.headers["mcp-session-id"];
  assert.equal(typeof id, "string");
  return String(id);
}

test("initialize agrees on the revision that is asked for, or on the latest one with sessions", async () => {
  const known = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
  for (const asked of [...known, "2026-07-28", "2099-01-01", "", undefined, 7]) {
    const params = { protocolVersion: asked, capabilities: {} };
    // The header is ignored here, because some clients already send the revision that they hope for.
    const answer = await send(rpc("initialize", params), { headers: version("2026-07-28") });
    assert.equal(answer.status, 200);
    const { result } = answer.json;
    assert.equal(result.protocolVersion, known.find((one) => one === asked) ?? known[0]);
    assert.deepEqual(result.capabilities, { tools: {}, logging: {}, resources: {} });
    assert.equal(result.serverInfo.name, "local.sluice/gateway");
    assert.match(result.instructions, /estimatedCUMilli.*confirmation_token/);
    assert.ok(/^[\x21-\x7e]+$/.test(String(answer.headers["mcp-session-id"])));
  }
});

test("a session survives a restart, is bound to its key, and is ended permanently by DELETE", async () => {
  await using mine = await startMcpGateway();
  const other = await mine.issue({});
  const initialize = rpc("initialize", { protocolVersion: "2025-06-18" });
  const token = String((await ask(mine, { body: initialize })).headers["mcp-session-id"]);
  const ping = (url: string, key: string, id = token): Promise<Answer> =>
    ask({ ...mine, url }, { key, body: rpc("ping"), headers: inSession(id) });
  assert.equal((await ping(mine.url, mine.key)).status, 200);
  await mine.gateway.stop();
  const restarted = await startGateway({
    configFile: join(mine.folder, "pipeline.yaml"),
    env: { PORT: "0", ADMIN_PORT: "0", DATA_DIR: join(mine.folder, "data") },
    log: silentLog,
    watch: false,
  });
  try {
    const { url } = restarted;
    assert.equal((await ping(url, mine.key)).status, 200);
    const lost = [
      await ping(url, other.key),
      await ping(url, mine.key, `${token}A`),
      await ping(url, mine.key, `x${token}`),
      await ping(url, mine.key, "nonsense"),
    ];
    for (const answer of lost) assert.equal(answer.status, 404, answer.text);
    assert.deepEqual(lost[0]?.json, {
      jsonrpc: "2.0",
      id: 1,
      error: {
        code: -32600,
        message: "Session not found",
        data: { errorCode: "GATEWAY_NOT_FOUND" },
      },
    });
    const end = (key: string, headers = inSession(token)): Promise<Answer> =>
      ask({ ...mine, url }, { method: "DELETE", key, headers });
    assert.equal((await end(other.key)).status, 404);
    assert.equal((await end(mine.key, {})).status, 400);
    const ended = await end(mine.key);
    assert.deepEqual([ended.status, ended.text], [204, ""]);
    assert.equal((await end(mine.key)).status, 404);
    assert.equal((await ping(url, mine.key)).status, 404);
  } finally {
    await restarted.stop();
  }
});

test("a session expires after seven days, also if it was used a millisecond before", async () => {
  const headers = inSession(await begin());
  const status = async (): Promise<number> => (await send(rpc("ping"), { headers })).status;
  clock.jump(7 * 24 * 3600_000 - 1);
  assert.equal(await status(), 200);
  clock.jump(1);
  assert.equal(await status(), 404);
  clock.jump(999);
  assert.equal(await status(), 404);
});

test("a session that is ended at one surface ends within a second at another one, as on another replica", async () => {
  const headers = inSession(await begin());
  const status = async (path: string): Promise<number> =>
    (await send(rpc("ping"), { path, headers })).status;
  assert.equal(await status("/second"), 200);
  assert.equal((await send(undefined, { method: "DELETE", headers })).status, 204);
  clock.jump(1000);
  assert.deepEqual([await status("/mcp"), await status("/second")], [404, 404]);
});

test("a request without a session is served, and so is one that names another known revision", async () => {
  assert.equal((await send(echo)).status, 200);
  const session = inSession(await begin("2025-11-25"));
  for (const one of ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]) {
    const answer = await send(echo, { headers: { ...session, ...version(one) } });
    assert.equal(answer.status, 200, one);
  }
});

test("an unknown revision in the header returns 400; for the stateless one the error lists what the body lacks", async () => {
  for (const one of ["2025-01-01", "1", "latest", ""]) {
    const answer = await send(echo, { headers: version(one) });
    assert.equal(answer.status, 400, one);
    assert.equal(answer.json.error.code, -32600);
    assert.equal(answer.json.id, 1);
  }
  for (const one of ["2026-07-28", "2099-12-31"]) {
    const answer = await send(echo, { headers: version(one) });
    assert.equal(answer.status, 400, one);
    assert.equal(answer.json.error.code, -32602);
    assert.match(answer.json.error.message, /io\.modelcontextprotocol\/protocolVersion/);
    assert.match(answer.json.error.message, /io\.modelcontextprotocol\/clientCapabilities/);
  }
});

test("a body that is not JSON returns 400, -32700, and one that is not a message -32600, both without an id", async () => {
  const headers = { "content-type": "application/json" };
  for (const body of ["", "{", "{} {}", "{'jsonrpc':'2.0'}"]) {
    const { status, json } = await send(body, { headers });
    const error = { code: -32700, message: "Parse error" };
    assert.deepEqual([status, json], [400, { jsonrpc: "2.0", id: null, error }], body);
  }
  const ids = ["null", "true", "{}", "[1]"].map(
    (id) => `{"jsonrpc":"2.0","id":${id},"method":"ping"}`,
  );
  const invalid = ["null", "true", "1", '"text"', "{}", '{"jsonrpc":"2.0"}', ...ids];
  invalid.push('{"jsonrpc":"2.0","id":1}', '{"jsonrpc":"1.0","id":1,"method":"ping"}');
  invalid.push('{"jsonrpc":2,"id":1,"method":"ping"}', '{"id":1,"method":"ping"}');
  for (const body of [...invalid, '{"jsonrpc":"2.0","id":1,"method":5}']) {
    const { status, json } = await send(body, { headers });
    assert.deepEqual([status, json.id, json.error.code], [400, null, -32600], body);
  }
});

test("a message with jsonrpc is not a plain call, even with a member `tool`", async () => {
  const answer = await send({ jsonrpc: "2.0", id: 4, method: "ping", tool: "echo", input: {} });
  assert.deepEqual(answer.json, { jsonrpc: "2.0", id: 4, result: {} });
});

test("ids come back exactly as sent, also in arrays", async () => {
  const ids = ["0", "-1", '""', '"a\\u00e9\\n"', "12345678901234567890", "1.5", "1e400", "-7e-9"];
  const headers = { "content-type": "application/json" };
  const ping = (id: string): string => `{"jsonrpc":"2.0","id":${id},"method":"ping"}`;
  const pong = (id: string): string => {
    const sent = id.startsWith('"') ? JSON.stringify(JSON.parse(id)) : id;
    return `{"jsonrpc":"2.0","id":${sent},"result":{}}`;
  };
  for (const id of ids) assert.equal((await send(ping(id), { headers })).text, pong(id));
  const { text } = await send(`[${ids.map(ping).join()}]`, { headers });
  assert.equal(text, `[${ids.map(pong).join()}]`);
});

test("notifications and unexpected responses return 202 without a body and cost nothing", async () => {
  for (const body of [
    { jsonrpc: "2.0", method: "notifications/initialized" },
    { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 1 } },
    { jsonrpc: "2.0", method: "tools/call", params: { name: "echo", arguments: { text: "" } } },
    { jsonrpc: "2.0", id: 9, result: {} },
    { jsonrpc: "2.0", id: 9, error: { code: 1, message: "" } },
  ]) {
    const answer = await send(body);
    assert.deepEqual([answer.status, answer.text], [202, ""]);
    assert.equal(answer.headers["x-used-cu-milli"], "0");
  }
});

test("methods that the server does not offer return -32601 with status 200", async () => {
  for (const method of ["server/discover", "prompts/list", "prompts/get", "completion/complete"]) {
    const answer = await send(rpc(method, {}));
    assert.equal(answer.status, 200, method);
    assert.deepEqual(answer.json, {
      jsonrpc: "2.0",
      id: 1,
      error: { code: -32601, message: "Method not found" },
    });
  }
  assert.deepEqual((await send(rpc("logging/setLevel", { level: "info" }))).json.result, {});
});

test("tools/list contains every tool in a stable order, with all hints and without members of later revisions", async () => {
  const { result } = (await send(rpc("tools/list"))).json;
  assert.deepEqual(Object.keys(result), ["tools"]);
  const names = result.tools.map((tool: { name: string }) => tool.name);
  assert.deepEqual(names.slice(0, 3), ["echo", "infer", "linked"]);
  for (const tool of result.tools) {
    assert.equal(tool.inputSchema.type, "object");
    for (const hint of ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"]) {
      assert.equal(typeof tool.annotations[hint], "boolean", `${tool.name} ${hint}`);
    }
  }
  // Tools that do not only read have the defaults of the protocol: "infer" says so, and "write" needs a confirmation.
  for (const name of ["infer", "write"]) {
    const { annotations } = result.tools.find((tool: { name: string }) => tool.name === name);
    assert.equal(annotations.readOnlyHint, false);
    assert.equal(annotations.destructiveHint, true);
  }
  assert.equal(result.tools[0].title, "Echo");
  assert.deepEqual(result.tools[0]._meta, { estimatedCUMilli: 100, estimatedCUVaries: false });
  const paged = await send(rpc("tools/list", { cursor: "x" }));
  assert.deepEqual([paged.status, paged.json.error.code], [200, -32602]);
});

test("invalid params of a call return -32602; tool and input are accepted for name and arguments", async () => {
  for (const params of [undefined, null, {}, { name: 1 }, { name: null }, [], "x", 5]) {
    const answer = await send(rpc("tools/call", params));
    assert.deepEqual(
      [answer.status, answer.json.error?.code],
      [200, -32602],
      JSON.stringify(params),
    );
    assert.equal(answer.json.error.data.errorCode, "GATEWAY_INVALID_PARAMS");
  }
  const answer = await send(rpc("tools/call", { tool: "echo", input: { text: "x" } }));
  assert.equal(answer.json.result._meta.toolName, "echo");
});

test("links and structured results are sent only in revisions that support them", async () => {
  const measured = rpc("tools/call", { name: "measure" });
  for (const [revision, content] of [
    ["2025-06-18", { celsius: 21.5 }],
    ["2025-03-26", undefined],
  ] as const) {
    const { result } = (await send(measured, { headers: version(revision) })).json;
    assert.deepEqual(result.structuredContent, content);
  }
  const inEvent = { ...version("2025-06-18"), accept: "text/event-stream" };
  const [event] = eventsOf((await send(measured, { headers: inEvent })).text);
  assert.deepEqual(event.result.structuredContent, { celsius: 21.5 });
  const linked = rpc("tools/call", { name: "linked" });
  const types = (answer: Answer): string[] =>
    answer.json.result.content.map((item: { type: string }) => item.type);
  const known = await send(linked, { headers: version("2025-06-18") });
  assert.deepEqual(types(known), ["text", "resource_link"]);
  assert.deepEqual(known.json.result.content[1], {
    type: "resource_link",
    uri: "doc://guide#part",
    name: "guide",
    title: "Guide",
    mimeType: "text/markdown",
  });
  const only = rpc("tools/call", { name: "linked", arguments: { only: true } });
  assert.deepEqual(types(await send(only, { headers: version("2025-06-18") })), ["resource_link"]);
  assert.deepEqual(types(await send(linked, { headers: version("2025-03-26") })), ["text"]);
  assert.deepEqual(types(await send(linked)), ["text"]);
  const session = inSession(await begin("2025-11-25"));
  assert.deepEqual(types(await send(linked, { headers: session })), ["text", "resource_link"]);
});

test("documents are listed and read; a fragment is ignored; a missing document returns -32002", async () => {
  const { resources } = (await send(rpc("resources/list"))).json.result;
  assert.deepEqual(resources[0], {
    uri: "doc://guide",
    name: "guide",
    title: "Guide",
    description: "How to.",
    mimeType: "text/markdown",
    size: 7,
  });
  const templates = await send(rpc("resources/templates/list"));
  assert.deepEqual(templates.json.result, { resourceTemplates: [] });
  const read = async (uri: unknown, key = gateway.key): Promise<Parsed> =>
    (await send(rpc("resources/read", { uri }), { key })).json;
  const [guide] = (await read("doc://guide#part")).result.contents;
  assert.deepEqual(guide, { uri: "doc://guide#part", mimeType: "text/markdown", text: "# Guide" });
  const [picture] = (await read("doc://picture")).result.contents;
  assert.equal(picture.blob, "AQID");
  assert.equal((await read("doc://nothing")).error.code, -32002);
  assert.equal((await read(5)).error.code, -32602);
  const broken = await read("doc://broken");
  assert.equal(broken.error.code, -32603);
  assert.ok(!JSON.stringify(broken).includes("secret"));
  const poor = await gateway.issue({ capabilities: ["ledger:read"] });
  assert.equal(
    (await read("doc://guide", poor.key)).error.data.errorCode,
    "GATEWAY_PERMISSION_DENIED",
  );
});

test("log messages of tools come as events, from the level of the session on", async () => {
  const headers = { ...both, ...inSession(await begin()) };
  const logs = rpc("tools/call", { name: "logs" });
  const levels = async (more: Record<string, string> = {}): Promise<unknown[]> => {
    const answer = await send(logs, { headers: { ...headers, ...more } });
    if (answer.headers["content-type"] === "application/json") return ["plain"];
    return eventsOf(answer.text).map(({ params }) => params?.level);
  };
  const setLevel = async (level: unknown): Promise<Parsed> =>
    (await send(rpc("logging/setLevel", { level }), { headers })).json;
  assert.deepEqual(await levels(), ["plain"], "without a level");
  assert.deepEqual((await setLevel("debug")).result, {});
  const message = { level: "warning", logger: "logs", data: { late: true } };
  const [, second] = eventsOf((await send(logs, { headers })).text);
  assert.deepEqual(second, { jsonrpc: "2.0", method: "notifications/message", params: message });
  assert.deepEqual(await levels(), ["debug", "warning", "error", undefined]);
  assert.deepEqual(await levels({ accept: "application/json" }), ["plain"], "there is no stream");
  assert.deepEqual(await levels(inSession(await begin())), ["plain"], "another session");
  await setLevel("warning");
  assert.deepEqual(await levels(), ["warning", "error", undefined]);
  await setLevel("critical");
  assert.deepEqual(await levels(), ["plain"]);
  for (const level of ["loud", "INFO", 3, undefined])
    assert.equal((await setLevel(level)).error.code, -32602);
});

test("an array is answered item by item under 2025-03-26, and each item is charged", async () => {
  const body = [
    echo,
    { jsonrpc: "2.0", method: "notifications/initialized" },
    { jsonrpc: "2.0", id: "x", method: "ping" },
    rpc("initialize", {}, 3),
    7,
    rpc("tools/call", { name: "echo", arguments: { text: "y" } }, 12),
  ];
  for (const headers of [{}, version("2025-03-26")]) {
    const answer = await send(body, { headers });
    assert.equal(answer.status, 200);
    const [first, ping, initialize, scalar, last] = answer.json;
    assert.equal(first.result._meta.usedCUMilli, 100);
    assert.deepEqual(ping, { jsonrpc: "2.0", id: "x", result: {} });
    assert.deepEqual([initialize.id, initialize.error.code], [3, -32600]);
    assert.deepEqual([scalar.id, scalar.error.code], [null, -32600]);
    assert.equal(last.id, 12);
    assert.equal(answer.json.length, 5);
    assert.equal(answer.headers["x-used-cu-milli"], "200");
  }
  const silent = await send([{ jsonrpc: "2.0", method: "notifications/initialized" }]);
  assert.deepEqual([silent.status, silent.text], [202, ""]);
});

test("an array's answer has at most 32 MiB: items after that are not run and not charged", async () => {
  const large = rpc("tools/call", { name: "large", arguments: {} }, 1);
  const answer = await send([...Array<object>(6).fill(large), echo]);
  assert.equal(answer.status, 200);
  assert.ok(answer.text.length <= 32 * 1024 * 1024);
  const messages = (answer.json as Parsed[]).map(({ error }) => error?.message);
  const full = messages.findIndex((message) => message !== undefined);
  assert.equal(messages[full], "the responses are too large together");
  assert.deepEqual(
    messages.slice(full + 1),
    Array(6 - full).fill("not run: the responses of this array exceed the size limit"),
  );
  assert.deepEqual([answer.json[6].id, answer.json[6].error.code], [1, -32603]);
  assert.equal(answer.headers["x-used-cu-milli"], String(100 * (full + 1)));
});

test("only the item of an array that exceeds the credit fails", async () => {
  const poor = await gateway.issue({ cuLimit24hMilli: 150 });
  const answer = await send([echo, echo, rpc("ping")], { key: poor.key });
  assert.equal(answer.status, 200);
  const [paid, refused, ping] = answer.json;
  assert.equal(paid.result._meta.usedCUMilli, 100);
  assert.deepEqual(refused.result._meta, { errorCode: "GATEWAY_CU_LIMIT_EXCEEDED" });
  assert.deepEqual(ping.result, {});
  assert.equal((await send(echo, { key: poor.key })).status, 429);
});

test("an array is refused if it is empty, longer than 20, of another revision or has a stateless item", async () => {
  const stateless = rpc("ping", {
    _meta: { "io.modelcontextprotocol/protocolVersion": "2026-07-28" },
  });
  const later = await begin("2025-06-18");
  const cases: readonly [unknown, Record<string, string>][] = [
    [[], {}],
    [Array.from({ length: 21 }, () => rpc("ping")), {}],
    [[echo], version("2025-06-18")],
    [[echo], version("2025-11-25")],
    [[echo], inSession(later)],
    [[echo, stateless], {}],
  ];
  for (const [body, headers] of cases) {
    const answer = await send(body, { headers });
    assert.deepEqual([answer.status, answer.json.error.code], [400, -32600]);
  }
  const most = Array.from({ length: 20 }, (_, id) => rpc("ping", undefined, id));
  assert.equal((await send(most)).json.length, 20);
  const session = inSession(await begin("2025-03-26"));
  assert.equal((await send([echo], { headers: session })).status, 200);
});

test("Accept is read liberally: only clients that accept nothing else get an event", async () => {
  const json = [undefined, "*/*", "application/json", "application/*", "text/html", ""];
  json.push("application/json, text/event-stream", "text/event-stream, */*;q=0.1");
  for (const accept of json) {
    const headers: Record<string, string> = accept === undefined ? {} : { accept };
    const answer = await send(echo, { headers });
    assert.equal(answer.headers["content-type"], "application/json", accept ?? "absent");
  }
  const answer = await send(echo, { headers: { accept: "text/event-stream" } });
  assert.equal(answer.headers["content-type"], "text/event-stream");
  assert.equal(eventsOf(answer.text)[0].result._meta.toolName, "echo");
});

const counting = (token: unknown, until = 3): object =>
  rpc("tools/call", { name: "counts", arguments: { until }, _meta: { progressToken: token } }, "c");

test("without a token, without events in Accept, or without progress the answer is plain JSON", async () => {
  const cases: readonly [unknown, Record<string, string>][] = [
    [counting(undefined), both],
    [counting(null), both],
    [counting({}), both],
    [counting("t"), { accept: "application/json" }],
    [counting("t"), {}],
    [counting("t", 0), both],
  ];
  for (const [body, headers] of cases) {
    const answer = await send(body, { headers });
    assert.equal(answer.headers["content-type"], "application/json");
    assert.equal(answer.json.result._meta.toolName, "counts");
  }
});
