/**
 * Every way in which a call can fail, on every transport in each of its forms: the code is the same everywhere, nothing
 * is charged, and the node is not asked.
 */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { rpcCodeOf } from "../../plugins/tools/tool-rpc/error-codes.ts";
import type { GatewayCode } from "../../src/base/errors.ts";
import { otherWrongInputs, wrongLedgerInputs, type WrongInput } from "../plugins/wrong-inputs.ts";
import type { Answer, Parsed } from "./ask.ts";
import { stateless } from "./mcp-gateway.ts";
import { healthyNode, startRpcNode, type RpcNode } from "./rpc-node.ts";
import { pipelineOf, send, startToolsGateway, type ToolsGateway } from "./tools-gateway.ts";
import { seen } from "./tools-plugin.ts";

let node: RpcNode;
let gateway: ToolsGateway;
before(async () => {
  node = await startRpcNode();
  const tools =
    "{ ledger-tools: { write: true } }, platform-tools, docs-search, gateway-batch, tools-plugin";
  const upstreams = `upstreams: { ledger: { urls: "${node.url}" } }\nlists:`;
  gateway = await startToolsGateway({
    pipeline: pipelineOf(tools).replace("lists:", upstreams),
    account: { capabilities: ["ledger:read", "ledger:write", "platform:read", "docs:read"] },
  });
});
after(async () => {
  await gateway[Symbol.asyncDispose]();
  await node[Symbol.asyncDispose]();
});

interface Transport {
  readonly name: string;
  call(tool: string, input: unknown, key?: string): Promise<Answer>;
  /** Returns the code and message of a failed answer; undefined if the call succeeded. */
  failure(body: Parsed): { readonly code: string; readonly message: string } | undefined;
  /** The tool's result as JSON text. */
  result(answer: Answer): string;
  usage(body: Parsed): Parsed;
}

interface Sent {
  readonly path: string;
  readonly body: object;
  readonly headers?: Readonly<Record<string, string>>;
}

const toolFailure = (result: Parsed): ReturnType<Transport["failure"]> =>
  result.isError === true
    ? { code: result._meta.errorCode, message: result.content[0].text }
    : undefined;

function transportOf(
  name: string,
  sent: (tool: string, input: unknown) => Sent,
  more: Omit<Transport, "name" | "call">,
): Transport {
  return {
    name,
    call(tool, input, key = gateway.key) {
      const { path, body, headers = {} } = sent(tool, input);
      return send(gateway, textOf(body), { path, headers, key });
    },
    ...more,
  };
}

const request = (method: string, params: object): object => ({
  jsonrpc: "2.0",
  id: 1,
  method,
  params,
});
const asMcp = {
  failure: ({ result }: Parsed) => toolFailure(result),
  result: (answer: Answer) => answer.json.result.content[0].text as string,
  usage: ({ result }: Parsed) => result._meta,
};

const transports: readonly Transport[] = [
  transportOf(
    "/rpc",
    (tool, input) => ({ path: "/rpc", body: request("tools.call", { tool, params: input }) }),
    {
      failure({ error }: Parsed) {
        if (error === undefined) return undefined;
        const code: GatewayCode = error.data.errorCode;
        assert.equal(error.code, rpcCodeOf(code));
        return { code, message: error.message };
      },
      result: ({ text }) =>
        text.slice(text.indexOf('"content":') + 10, text.indexOf(',"usedCUMilli"')),
      usage: ({ result }: Parsed) => result,
    },
  ),
  transportOf("/mcp, plain", (tool, input) => ({ path: "/mcp", body: { tool, input } }), {
    failure: toolFailure,
    result: (answer) => answer.json.content[0].text,
    usage: ({ _meta: meta }: Parsed) => meta,
  }),
  transportOf(
    "/mcp, 2025-11-25",
    (tool, input) => ({
      path: "/mcp",
      body: request("tools/call", { name: tool, arguments: input }),
      headers: { "mcp-protocol-version": "2025-11-25" },
    }),
    asMcp,
  ),
  transportOf(
    "/mcp, 2026-07-28",
    (tool, input) => {
      // A header has no white space at its ends.
      const headers = { "mcp-name": `=?base64?${Buffer.from(tool).toString("base64")}?=` };
      const params = { name: tool, arguments: input };
      return { path: "/mcp", ...stateless("tools/call", params, { headers }) };
    },
    asMcp,
  ),
];

/** A number that a double cannot represent becomes infinite when it is read. */
function textOf(body: object): string {
  const text = JSON.stringify(body, (_, value: unknown) => (value === Infinity ? "1e400" : value));
  return text.replaceAll('"1e400"', "1e400");
}

async function refuses(
  transport: Transport,
  { tool, input, code, where }: WrongInput,
): Promise<void> {
  const answer = await transport.call(tool, input);
  const about = `${tool} ${textOf({ input }).slice(0, 80)}: ${answer.text.slice(0, 300)}`;
  assert.equal(answer.status, 200, about);
  const failed = transport.failure(answer.json);
  assert.equal(failed?.code, code, about);
  const named = code === "GATEWAY_SCHEMA_VIOLATION" && where === "" ? "the input" : where;
  assert.ok(failed.message.startsWith(named), about);
  assert.equal(answer.headers["x-used-cu-milli"], "0", about);
}

for (const transport of transports) {
  describe(transport.name, () => {
    const wrong = [...wrongLedgerInputs, ...otherWrongInputs];
    it(`refuses ${wrong.length} invalid inputs with their codes, without a charge and without asking the node`, async () => {
      for (const one of wrong) await refuses(transport, one);
      const probes = new Set([...Object.keys(healthyNode), "system_version"]);
      assert.deepEqual(
        node.calls.filter(({ method }) => !probes.has(method)),
        [],
      );
    });

    it("refuses a key without the capability, for every tool", async () => {
      const { key } = await gateway.issue({ capabilities: ["inference"] });
      const listed = (await send(gateway, textOf(request("tools.list", {})))).json;
      const names: string[] = listed.result.tools.map(({ name }: { name: string }) => name);
      const shipped = names.filter((name) => /^(ledger|platform|docs)_/.test(name));
      assert.equal(shipped.length, 15);
      for (const tool of shipped) {
        const answer = await transport.call(tool, {}, key);
        assert.equal(answer.status, 200);
        const { code } = transport.failure(answer.json) ?? {};
        assert.equal(code, "GATEWAY_PERMISSION_DENIED", tool);
        assert.equal(answer.headers["x-used-cu-milli"], "0");
      }
      const calls = [
        { tool: "ledger_getHealth", params: {} },
        { tool: "raw", params: {} },
      ];
      const batch = await transport.call("gateway_batch", { calls }, key);
      const items = transport.result(batch);
      assert.match(items, /^\[\{"tool":"ledger_getHealth","error":"GATEWAY_PERMISSION_DENIED: /);
      assert.equal(batch.headers["x-used-cu-milli"], "100");
    });

    it("reports a tool that throws, fails or returns something that is not JSON, without the reason", async () => {
      for (const [tool, code] of [
        ["throws", "GATEWAY_INTERNAL_ERROR"],
        ["cycles", "GATEWAY_INTERNAL_ERROR"],
        ["fails", "GATEWAY_TOOL_EXECUTION_ERROR"],
        ["away", "GATEWAY_SERVICE_UNAVAILABLE"],
        ["lost", "GATEWAY_NOT_FOUND"],
        ["platform_getAttestationQuote", "GATEWAY_SERVICE_UNAVAILABLE"],
      ] as const) {
        const answer = await transport.call(tool, {});
        assert.equal(answer.status, 200);
        assert.equal(transport.failure(answer.json)?.code, code);
        assert.equal(answer.headers["x-used-cu-milli"], "0");
        assert.ok(!answer.text.includes("secret"), answer.text);
      }
    });

    it("reports the cost of a success in the answer and in the header", async () => {
      const calls = [
        { tool: "docs_search", params: { query: "gateway" } },
        { tool: "ledger_listMethods", params: {} },
        { tool: "nothing", params: {} },
      ];
      for (const [tool, input, cost] of [
        ["ledger_listMethods", { namespace: "chain_" }, 100],
        ["platform_listModels", {}, 100],
        ["docs_search", { query: "gateway", limit: 1 }, 100],
        ["gateway_batch", { calls }, 200],
        ["gateway_batch", { calls: [] }, 0],
      ] as const) {
        const answer = await transport.call(tool, input);
        const { usedCUMilli, content: _, ...more } = transport.usage(answer.json);
        assert.equal(usedCUMilli, cost, tool);
        assert.equal(answer.headers["x-used-cu-milli"], String(cost), tool);
        if (transport.name === "/rpc") continue;
        assert.equal(more.toolName, tool);
        assert.equal(more.timestamp, new Date(gateway.clock.now()).toISOString());
        assert.ok(Number.isInteger(more.latencyMs));
        const { genAIRequestModel, genAIUsageInputTokens, genAIUsageOutputTokens } = more;
        assert.deepEqual(
          [genAIRequestModel, genAIUsageInputTokens, genAIUsageOutputTokens],
          ["", 0, 0],
        );
      }
    });

    it("delivers a result of 10 MiB completely", async () => {
      const answer = await transport.call("large", {});
      assert.equal(transport.result(answer), JSON.stringify("é".repeat(5 * 1024 * 1024)));
    });

    it("gives up on a tool that hangs after 30 s, and charges nothing", async () => {
      const begun = seen.hanging;
      const sent = transport.call("hangs", {});
      while (seen.hanging === begun) await new Promise(setImmediate);
      gateway.clock.advance(30_000);
      const answer = await sent;
      const { code } = transport.failure(answer.json) ?? {};
      assert.equal(code, "GATEWAY_TOOL_EXECUTION_ERROR");
      assert.equal(answer.headers["x-used-cu-milli"], "0");
    });
  });
}
