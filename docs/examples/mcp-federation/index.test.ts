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
