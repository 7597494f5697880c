/** Whole gateways with the pipeline.yaml of the READMEs of redact-pii and mcp-federation. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  scriptedUpstream,
  type ScriptedUpstream,
  startTestGateway,
  type TestGateway,
  type UpstreamReply,
} from "../../../plugins/contracts/testing.ts";
import { documentedPipeline } from "./documented.ts";

test("the model gets the request without personal data, and a large request is refused", async () => {
  await using models = await scriptedUpstream(({ path }) => {
    if (path === "/v1/models") return { body: { object: "list", data: [{ id: "acme/m-1" }] } };
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
    const message = { role: "assistant", content: "hi" };
    return { body: { choices: [{ index: 0, message, finish_reason: "stop" }], usage } };
  });
  const pipeline = documentedPipeline("redact-pii");
  await using gateway = await startTestGateway({ pipeline, env: { MODELS_URL: models.url } });
  // The gateway is ready when it has read the models.
  while ((await fetch(`${gateway.url}/readyz`)).status !== 200) await new Promise(setImmediate);
  const send = (body: object): Promise<Response> =>
    fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "acme/m-1", ...body }),
    });
  const messagesOf = (content: string): object => ({ messages: [{ role: "user", content }] });
  const asked = messagesOf("I am ada@acme.test, +49 30 1234567, 4111 1111 1111 1111.");
  for (const body of [asked, { extra_body: asked }]) {
    const answer = await send(body);
    assert.equal(answer.status, 200, await answer.text());
    const { messages } = JSON.parse(models.requests.at(-1)?.body ?? "") as { messages: object[] };
    assert.deepEqual(messages, [{ role: "user", content: "I am [EMAIL], [PHONE], [CARD]." }]);
  }
  assert.equal((await send(messagesOf("x".repeat(1_048_576)))).status, 413);
});

/** Nothing listens on this port. A dead server costs only its own tools. */
const deadUrl = "http://127.0.0.1:9/mcp";

interface Message {
  readonly id?: number;
  readonly method: string;
}

/** A server, which comes, goes and is slow, with the tools `forecast` and `erase`. `state.call` replies to calls. */
function weather(state: {
  isUnavailable: boolean;
  call: () => UpstreamReply | Promise<UpstreamReply>;
}) {
  return scriptedUpstream(({ method, body }) => {
    if (state.isUnavailable) return { status: 503 };
    if (method !== "POST") return { status: 405 };
    const { id, method: called } = JSON.parse(body) as Message;
    if (id === undefined) return { status: 202 };
    const answer = (result: object): UpstreamReply => ({ body: { jsonrpc: "2.0", id, result } });
    if (called === "tools/list") {
      const inputSchema = { type: "object" };
      return answer({ tools: ["forecast", "erase"].map((name) => ({ name, inputSchema })) });
    }
    if (called === "tools/call") {
      return Promise.try(state.call).then((reply) => answer(Object(reply.body)));
    }
    const serverInfo = { name: "weather", version: "1" };
    return answer({ protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo });
  });
}

function started({ url }: ScriptedUpstream): Promise<TestGateway> {
  const pipeline = documentedPipeline("mcp-federation").replace("Seconds: 60", "Seconds: 1");
  return startTestGateway({ pipeline, env: { WEATHER_MCP_URL: url, MAPS_MCP_URL: deadUrl } });
}

async function post(gateway: TestGateway, path: string, body: object, signal?: AbortSignal) {
  const answer = await fetch(gateway.url + path, {
    method: "POST",
    headers: {
      authorization: `Bearer ${gateway.key}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2025-06-18",
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, ...body }),
    ...(signal && { signal }),
  });
  return answer.text();
}

const call = { method: "tools.call", params: { tool: "weather_forecast", params: {} } };
const sunny = { body: { content: [{ type: "text", text: "sunny" }] } };

async function usedBy({ gateway, workspaceId }: TestGateway): Promise<number> {
  const usage = await gateway.use("metering")?.workspaceUsage(workspaceId);
  return usage?.includedMilliCu ?? 0;
}

/** Waits until the tools of a server are in the catalogue, because the start does not wait for them. */
async function untilListed({ gateway }: TestGateway): Promise<void> {
  const catalogue = gateway.use("tool-catalogue") ?? assert.fail();
  await until(() => catalogue.list.length > 1);
}

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise(setImmediate);
}

test("the tools of a server that was unavailable at the start appear on every surface, with their price", async () => {
  const state = { isUnavailable: true, call: () => sunny };
  await using upstream = await weather(state);
  await using gateway = await started(upstream);
  const lists = async (): Promise<string[]> => [
    await post(gateway, "/rpc", { method: "tools.list" }),
    await post(gateway, "/mcp", { method: "tools/list" }),
    await (await fetch(`${gateway.url}/.well-known/mcp`)).text(),
  ];
  for (const list of await lists()) {
    assert.match(list, /gateway_batch/);
    assert.doesNotMatch(list, /weather/);
  }
  assert.match(await post(gateway, "/rpc", call), /GATEWAY_TOOL_NOT_FOUND/);

  state.isUnavailable = false;
  const catalogue = gateway.gateway.use("tool-catalogue") ?? assert.fail();
  await until(() => catalogue.list.length > 1);
  assert.deepEqual(
    catalogue.list.map(({ name }) => name),
    ["gateway_batch", "weather_forecast"],
  );
  for (const list of await lists()) {
    assert.match(list, /weather_forecast.*"estimatedCUMilli":500/);
    assert.doesNotMatch(list, /maps_/);
  }
  const { result } = JSON.parse(await post(gateway, "/rpc", call)) as { result: object };
  assert.deepEqual(result, { content: sunny.body, usedCUMilli: 500 });
  const params = { name: "weather_forecast", arguments: {} };
  assert.match(await post(gateway, "/mcp", { method: "tools/call", params }), /"text":"sunny"/);
  assert.equal(await usedBy(gateway), 1_000);
});

test("a tool's own error is content and costs nothing; the error of a server that is unavailable is not passed on", async () => {
  const text = "there is no such city";
  const state = {
    isUnavailable: false,
    call: () => ({ body: { isError: true, content: [{ type: "text", text }] } }),
  };
  await using upstream = await weather(state);
  await using gateway = await started(upstream);
  await untilListed(gateway);
  const errorOf = async (): Promise<unknown> =>
    (JSON.parse(await post(gateway, "/rpc", call)) as { error: unknown }).error;
  const data = { errorCode: "GATEWAY_TOOL_EXECUTION_ERROR" };
  assert.deepEqual(await errorOf(), { code: -32_603, message: text, data });
  state.isUnavailable = true;
  assert.deepEqual(await errorOf(), { code: -32_603, message: "the tool did not answer", data });
  assert.equal(await usedBy(gateway), 0);
});
