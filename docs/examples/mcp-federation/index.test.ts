import assert from "node:assert/strict";
import { test } from "node:test";
import { scriptedUpstream, testTools, type UpstreamReply } from "sluice-gateway/testing";
import plugin from "./index.ts";

interface Message {
  readonly id?: number;
  readonly method: string;
  readonly params?: { readonly arguments?: { readonly text?: string } };
}

/** A small server of the protocol: one tool that may be called, and one that may not. */
function serve({ id, method, params }: Message): UpstreamReply {
  if (id === undefined) return { status: 202 };
  const answer = (result: object): UpstreamReply => ({ body: { jsonrpc: "2.0", id, result } });
  const inputSchema = { type: "object", properties: { text: { type: "string" } } };
  if (method === "initialize") {
    const serverInfo = { name: "test", version: "1" };
    return answer({ protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo });
  }
  if (method === "tools/list") {
    return answer({
      tools: [
        { name: "echo", inputSchema },
        { name: "erase", inputSchema },
      ],
    });
  }
  if (method === "tools/call") {
    return answer({ content: [{ type: "text", text: params?.arguments?.text ?? "" }] });
  }
  return { body: { jsonrpc: "2.0", id, error: { code: -32_601, message: "unknown method" } } };
}

test("allowed tools of other servers are called, and only the tools of a dead server are missing", async () => {
  let isAway = false;
  await using upstream = await scriptedUpstream(({ method, body }) => {
    if (isAway) return { status: 503 };
    // The client also asks for a stream with GET, which this server does not support.
    return method === "POST" ? serve(JSON.parse(body) as Message) : { status: 405 };
  });
  const servers = {
    acme: { url: upstream.url, tools: { echo: 5, missing: 1 } },
    dead: { url: "http://127.0.0.1:9/mcp", tools: { echo: 5 } },
  };
  await using tested = await testTools(plugin, { options: { servers } });
  const list = tested.catalogue.list.map(({ name, estimatedCUMilli }) => [name, estimatedCUMilli]);
  assert.deepEqual(list, [["acme_echo", 5]]);
  const outcome = await tested.call("acme_echo", { text: "hi" });
  assert.equal(outcome.ok, true);
  isAway = true;
  const failed = await tested.call("acme_echo", { text: "hi" });
  assert.equal(!failed.ok && failed.code, "GATEWAY_TOOL_EXECUTION_ERROR");
});

test("invalid tools are skipped, errors keep the connection, and error texts and output schemas are kept", async () => {
  const object = { type: "object" };
  const names = ["wrong", "a-b", "a.b", "x".repeat(70), "fail", "refuse", "typed"];
  const tools = names.map((name) => ({
    name,
    inputSchema: name === "wrong" ? { ...object, properties: { a: { type: "strin" } } } : object,
    ...(name === "typed" && { outputSchema: { ...object, properties: { n: { type: "number" } } } }),
  }));
  let connections = 0;
  await using upstream = await scriptedUpstream(({ method, body }) => {
    if (method !== "POST") return { status: 405 };
    const message = JSON.parse(body) as Message & { params?: { name?: string } };
    const { id, params } = message;
    const answer = (result: object): UpstreamReply => ({ body: { jsonrpc: "2.0", id, result } });
    if (message.method === "initialize") connections++;
    if (message.method === "tools/list") return answer({ tools });
    if (message.method !== "tools/call") return serve(message);
    if (params?.name === "refuse") {
      return { body: { jsonrpc: "2.0", id, error: { code: -32_602, message: "bad input" } } };
    }
    if (params?.name === "typed") return answer({ content: [], structuredContent: { n: 1 } });
    return answer({ content: [{ type: "text", text: "the month is missing" }], isError: true });
  });
  const prices = Object.fromEntries(names.map((name) => [name, 1]));
  const options = { servers: { acme: { url: upstream.url, tools: prices } } };
  await using tested = await testTools(plugin, { options });
  assert.deepEqual(
    tested.catalogue.list.map(({ name }) => name),
    ["acme_a_b", "acme_fail", "acme_refuse", "acme_typed"],
  );
  assert.equal(tested.lines.filter((line) => line.startsWith("skipped: tool")).length, 3);
  const failed = await tested.call("acme_fail");
  assert.equal(!failed.ok && failed.message, "the month is missing");
  const refused = await tested.call("acme_refuse");
  assert.equal(!refused.ok && refused.message, "the tool did not answer");
  const typed = await tested.call("acme_typed");
  assert.ok(typed.ok && typed.isStructured === true && typed.json === '{"n":1}');
  assert.equal(connections, 1);
  assert.ok(!tested.lines.some((line) => line.includes("does not answer")));
});
