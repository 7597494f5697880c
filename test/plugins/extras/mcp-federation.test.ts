import assert from "node:assert/strict";
import { test } from "node:test";
import {
  scriptedUpstream,
  type ScriptedUpstream,
  testTools,
  type UpstreamReply,
} from "../../../plugins/contracts/testing.ts";
import plugin from "../../../plugins/extras/mcp-federation/index.ts";

interface Message {
  readonly id?: number;
  readonly method: string;
  readonly params?: {
    readonly name?: string;
    readonly requestId?: number;
    readonly arguments?: { readonly text?: string };
  };
}

type Reply = UpstreamReply | Promise<UpstreamReply>;
const object = { type: "object" };

/** A small server of the protocol. `script` replies to some messages itself. */
function server(script: (message: Message) => Reply | undefined): Promise<ScriptedUpstream> {
  return scriptedUpstream(({ method, body }) => {
    // The client also asks for a stream with GET, which this server does not support.
    if (method !== "POST") return { status: 405 };
    const message = JSON.parse(body) as Message;
    return script(message) ?? usualReply(message);
  });
}

function result(message: Message, value: object): UpstreamReply {
  return { body: { jsonrpc: "2.0", id: message.id, result: value } };
}

const tools = (...names: string[]) => ({
  tools: names.map((name) => ({ name, inputSchema: object })),
});

function usualReply(message: Message): UpstreamReply {
  const { id, method, params } = message;
  if (id === undefined) return { status: 202 };
  if (method === "tools/list") return result(message, tools("echo", "erase"));
  if (method === "tools/call") {
    return result(message, { content: [{ type: "text", text: params?.arguments?.text ?? "" }] });
  }
  if (method !== "initialize") {
    return { body: { jsonrpc: "2.0", id, error: { code: -32_601, message: "unknown method" } } };
  }
  const serverInfo = { name: "test", version: "1" };
  return result(message, {
    protocolVersion: "2025-06-18",
    capabilities: { tools: {} },
    serverInfo,
  });
}

const messagesOf = ({ requests }: ScriptedUpstream): Message[] =>
  requests.filter(({ body }) => body !== "").map(({ body }) => JSON.parse(body) as Message);
const countOf = (upstream: ScriptedUpstream, method: string): number =>
  messagesOf(upstream).filter((message) => message.method === method).length;

async function started({ url }: ScriptedUpstream, prices: Record<string, number> = { echo: 5 }) {
  const tested = await testTools(plugin, { options: { prefix: "acme", url, tools: prices } });
  await until(() => tested.catalogue.list.length > 0);
  return tested;
}

const textOf = (line: string): string => line.split(" {")[0] ?? "";

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise(setImmediate);
}

const unavailable: UpstreamReply = { status: 503 };
const changes = ["an MCP server is unavailable", "an MCP server is available again"];

test("allowed tools of another server are called", async () => {
  await using upstream = await server(() => undefined);
  const { url } = upstream;
  const prices = { echo: 5, missing: 1 };
  const options = { prefix: "acme", url, tools: prices, headers: { "x-key": "secret" } };
  await using tested = await testTools(plugin, { options });
  await until(() => tested.catalogue.list.length > 0);
  const list = tested.catalogue.list.map(({ name, estimatedCUMilli }) => [name, estimatedCUMilli]);
  assert.deepEqual(list, [["acme_echo", 5]]);
  const outcome = await tested.call("acme_echo", { text: "hi" });
  assert.ok(outcome.ok);
  assert.deepEqual(outcome.content, [{ type: "text", text: "hi" }]);
  assert.ok(upstream.requests.every(({ headers }) => headers["x-key"] === "secret"));
  const expected = 'tools of an MCP server are missing {"missing":["missing"]}';
  assert.ok(
    tested.lines.some((line) => line.includes(expected)),
    tested.lines.join(),
  );
});

test("the tools of a server that was unavailable appear when it answers, and follow its list", async () => {
  let isUnavailable = true;
  let names = ["echo"];
  await using upstream = await server((message) => {
    if (isUnavailable) return unavailable;
    return message.method === "tools/list" ? result(message, tools(...names)) : undefined;
  });
  const options = { prefix: "acme", url: upstream.url, tools: { echo: 5, more: 6 } };
  await using tested = await testTools(plugin, { options });
  await until(() => tested.lines.length > 0);
  const listed = (): string => tested.catalogue.list.map(({ name }) => name).join();
  const refreshed = async (): Promise<void> => {
    const before = countOf(upstream, "tools/list");
    tested.clock.advance(30_000);
    await until(() => countOf(upstream, "tools/list") > before);
  };
  assert.equal(listed(), "");
  isUnavailable = false;
  await refreshed();
  await until(() => listed() === "acme_echo");
  assert.equal((await tested.call("acme_echo")).ok, true);

  names = ["echo", "more", "erase"];
  await refreshed();
  await until(() => listed() === "acme_echo,acme_more");
  names = ["more"];
  await refreshed();
  await until(() => listed() === "acme_more");
  const list = tested.catalogue.list;
  await refreshed();

  // While the server is unavailable, its tools remain, and calls fail. The log has one line for it.
  const changesOf = (): string[] =>
    tested.lines.filter((line) => line.startsWith("an MCP server")).map(textOf);
  isUnavailable = true;
  while (changesOf().length < 3) {
    tested.clock.advance(30_000);
    await new Promise(setImmediate);
  }
  assert.equal(tested.catalogue.list, list, "an equal list has changed nothing");
  for (const _ of [1, 2]) {
    const failed = await tested.call("acme_more");
    assert.equal(!failed.ok && failed.code, "GATEWAY_TOOL_EXECUTION_ERROR");
  }
  assert.equal(listed(), "acme_more");
  isUnavailable = false;
  assert.equal((await tested.call("acme_more")).ok, true);
  await refreshed();
  await until(() => changesOf().length > 3);
  // At the start, and later.
  assert.deepEqual(changesOf(), [...changes, ...changes]);
});

test("invalid tools are skipped, and errors of one call keep the connection", async () => {
  const names = ["wrong", "large", "a-b", "a.b", "x".repeat(70), "fail", "refuse", "typed"];
  let deep = {};
  for (let depth = 0; depth < 1_000; depth++) deep = { deep };
  const listed = names.map((name) => ({
    name,
    inputSchema: name === "wrong" ? { ...object, $defs: deep } : object,
    ...(name === "large" && { description: "x".repeat(70_000) }),
    ...(name === "typed" && { outputSchema: { ...object, properties: { n: { type: "number" } } } }),
  }));
  await using upstream = await server((message) => {
    if (message.method === "tools/list") return result(message, { tools: listed });
    if (message.method !== "tools/call") return undefined;
    if (message.params?.name === "refuse") {
      const error = { code: -32_602, message: "secret of the server" };
      return { body: { jsonrpc: "2.0", id: message.id, error } };
    }
    if (message.params?.name === "typed") {
      return result(message, { content: [], structuredContent: { n: 1 } });
    }
    const text = "the month is missing";
    return result(message, { content: [{ type: "text", text }], isError: true });
  });
  await using tested = await started(upstream, Object.fromEntries(names.map((name) => [name, 1])));
  assert.deepEqual(
    tested.catalogue.list.map(({ name }) => name),
    ["acme_a_b", "acme_fail", "acme_refuse", "acme_typed"],
  );
  assert.equal(tested.lines.filter((line) => line.startsWith("a tool was skipped")).length, 4);
  const failed = await tested.call("acme_fail");
  assert.equal(!failed.ok && failed.message, "the month is missing");
  const refused = await tested.call("acme_refuse");
  assert.equal(!refused.ok && refused.code, "GATEWAY_INVALID_PARAMS");
  assert.equal(!refused.ok && refused.message, "the tool refused the arguments");
  const typed = await tested.call("acme_typed");
  assert.ok(typed.ok && typed.isStructured === true && typed.json === '{"n":1}');
  assert.equal(countOf(upstream, "initialize"), 1);
  assert.ok(!tested.lines.some((line) => line.includes("is unavailable")));
});

test("schemas and hints of the server are shown as they are, and only the server applies schemas", async () => {
  // Checking this pattern takes longer than the universe has existed.
  const slow = { type: "string", pattern: "^(a+)+$" };
  const text = `${"a".repeat(100)}!`;
  const $schema = "http://json-schema.org/draft-07/schema#";
  const schema = { ...object, $schema, properties: { text: slow }, required: ["text"] };
  const annotations = { title: "Read", readOnlyHint: true };
  const listed = [
    { name: "echo", inputSchema: schema, outputSchema: schema },
    { name: "read", inputSchema: object, annotations },
  ];
  await using upstream = await server((message) => {
    if (message.method === "tools/list") return result(message, { tools: listed });
    if (message.method !== "tools/call") return undefined;
    return result(message, { content: [], structuredContent: { text } });
  });
  await using tested = await started(upstream, { echo: 1, read: 1 });
  const [shown, other] = tested.catalogue.list;
  // A tool without hints is not shown as harmless.
  assert.deepEqual(
    [shown?.annotations, other?.annotations],
    [{ readOnlyHint: false }, annotations],
  );
  assert.deepEqual([shown?.inputSchema, shown?.outputSchema], [schema, schema]);
  const outcome = await tested.call("acme_echo", { text });
  assert.ok(outcome.ok && outcome.isStructured === true);
  assert.deepEqual(JSON.parse(outcome.json), { text });
  const call = messagesOf(upstream).find(({ method }) => method === "tools/call");
  assert.equal(call?.params?.arguments?.text, text);
});

const secret = "postgres://admin:secret@10.0.0.1";
const broken: Readonly<Record<string, (message: Message) => UpstreamReply>> = {
  "an error status": () => ({ status: 500, body: secret }),
  "a refusal": () => ({ status: 401, body: { error: secret } }),
  "a redirect": () => ({ status: 302, headers: { location: `http://127.0.0.1:9/${secret}` } }),
  "a page": () => ({ headers: { "content-type": "text/html" }, body: `<html>${secret}` }),
  "half an answer": () => ({ body: `{"jsonrpc":"2.0","${secret}`, breaks: true }),
  "text that is not JSON": () => ({
    headers: { "content-type": "application/json" },
    body: secret,
  }),
  "an answer without a result": () => ({ body: { secret } }),
  "a result without content": (message) => result(message, { content: secret }),
  "an answer that is too large": (message) =>
    result(message, { content: [{ type: "text", text: secret.repeat(50_000) }] }),
  "a JSON-RPC error": ({ id }) => ({
    body: { jsonrpc: "2.0", id, error: { code: -32_603, message: secret, data: { secret } } },
  }),
};

test("a call that the server does not answer properly fails without its text, and the next one works", async () => {
  let reply: ((message: Message) => UpstreamReply) | undefined;
  await using upstream = await server((message) =>
    message.method === "tools/call" ? reply?.(message) : undefined,
  );
  await using tested = await started(upstream);
  for (const [what, broken_] of Object.entries(broken)) {
    reply = broken_;
    const failed = await tested.call("acme_echo");
    assert.equal(!failed.ok && failed.code, "GATEWAY_TOOL_EXECUTION_ERROR", what);
    assert.doesNotMatch(JSON.stringify(failed), /secret/);
    reply = undefined;
    assert.equal((await tested.call("acme_echo")).ok, true, what);
  }
});

test("the text of a failed tool is bounded, and other content of it is not passed on", async () => {
  const headers = { "content-type": "text/event-stream" };
  const contents: object[][] = [
    [{ type: "text", text: "x".repeat(5_000) }],
    [{ type: "image", data: "AA==", mimeType: "image/png" }],
    [
      { type: "text", text: "a" },
      { type: "text", text: "b" },
    ],
  ];
  // Answers in the form of an event stream are read, too.
  await using upstream = await server((message) => {
    if (message.method !== "tools/call") return undefined;
    const { body } = result(message, { content: contents.shift(), isError: true });
    return { headers, body: `event: message\ndata: ${JSON.stringify(body)}\n\n` };
  });
  await using tested = await started(upstream);
  const messages: string[] = [];
  for (const _ of [1, 2, 3]) {
    const failed = await tested.call("acme_echo");
    assert.ok(!failed.ok);
    messages.push(failed.message);
  }
  assert.deepEqual(messages, ["x".repeat(2_000), "the tool failed", "a\nb"]);
});

test("a server that was restarted gets a new session, and the call runs once", async () => {
  let session = 0;
  let ran = 0;
  await using upstream = await scriptedUpstream(({ method, headers, body }) => {
    if (method !== "POST") return { status: 405 };
    const message = JSON.parse(body) as Message;
    if (message.method === "initialize") {
      return { ...usualReply(message), headers: { "mcp-session-id": `s${session}` } };
    }
    if (headers["mcp-session-id"] !== `s${session}`) return { status: 404 };
    if (message.method === "tools/call") ran++;
    return usualReply(message);
  });
  await using tested = await started(upstream);
  session++;
  assert.equal((await tested.call("acme_echo")).ok, true);
  assert.deepEqual([countOf(upstream, "initialize"), ran], [2, 1]);
});

test("a call that reaches the time limit is cancelled at the server", async () => {
  const { promise, resolve } = Promise.withResolvers<UpstreamReply>();
  await using upstream = await server((message) =>
    message.method === "tools/call" && message.params?.arguments?.text === "slow"
      ? promise
      : undefined,
  );
  await using tested = await started(upstream);
  const slow = tested.call("acme_echo", { text: "slow" });
  await until(() => countOf(upstream, "tools/call") === 1);
  tested.clock.advance(30_000);
  const failed = await slow;
  assert.equal(!failed.ok && failed.code, "GATEWAY_TOOL_EXECUTION_ERROR");
  await until(() => countOf(upstream, "notifications/cancelled") === 1);
  const messages = messagesOf(upstream);
  const call = messages.find(({ method }) => method === "tools/call");
  const cancelled = messages.find(({ method }) => method === "notifications/cancelled");
  assert.equal(cancelled?.params?.requestId, call?.id);
  // The connection is still usable.
  assert.equal((await tested.call("acme_echo", { text: "next" })).ok, true);
  assert.equal(countOf(upstream, "initialize"), 1);
  resolve({ status: 500 });
});

test("a stop of the plugin ends its calls", async () => {
  await using upstream = await server((message) =>
    message.method === "tools/call" ? new Promise(() => {}) : undefined,
  );
  const tested = await started(upstream);
  const call = tested.call("acme_echo");
  await until(() => countOf(upstream, "tools/call") === 1);
  await tested[Symbol.asyncDispose]();
  const failed = await call;
  assert.equal(!failed.ok && failed.message, "the tool did not answer");
});
