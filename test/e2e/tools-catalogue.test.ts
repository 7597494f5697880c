/**
 * One catalogue for every transport: a tool of a third party's package, the effect of a reload, and what is recorded.
 */
import assert from "node:assert/strict";
import { cpSync, mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { it } from "node:test";
import { readUsage } from "../../plugins/billing/metering/read-usage.ts";
import { call, pipelineOf, send, startToolsGateway, type ToolsGateway } from "./tools-gateway.ts";

const root = join(import.meta.dirname, "..", "..");

/** An operator's project: Sluice and the third party's package in node_modules, next to pipeline.yaml. */
function install(folder: string): void {
  const modules = join(folder, "node_modules");
  mkdirSync(join(modules, "@acme"), { recursive: true });
  symlinkSync(root, join(modules, "sluice-gateway"), "dir");
  const shipped = join(import.meta.dirname, "third-party-tools");
  cpSync(shipped, join(modules, "@acme", "sluice-tools"), { recursive: true });
}

const withAcme = pipelineOf("{ acme: { greeting: hi } }, gateway-batch").replace(
  /plugins: .*/,
  'plugins: { acme: "@acme/sluice-tools" }',
);

const listing = '{"jsonrpc":"2.0","id":1,"method":"tools.list"}';

async function namesOnEveryTransport(gateway: ToolsGateway): Promise<Record<string, string[]>> {
  interface Listed {
    readonly tools: { readonly name: string }[];
  }
  const names = ({ tools }: Listed): string[] => tools.map(({ name }) => name);
  const rpc = (await send(gateway, listing)).json as { result: Listed };
  const mcpBody = '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}';
  const mcp = (await send(gateway, mcpBody, { path: "/mcp" })).json as { result: Listed };
  const document = await send(gateway, undefined, {
    method: "GET",
    path: "/.well-known/mcp",
    key: null,
  });
  return {
    rpc: names(rpc.result),
    mcp: names(mcp.result),
    discovery: names(document.json as Listed),
  };
}

it("a tool of a third party's package is on every transport, and is checked, priced and charged like built-in tools", async () => {
  await using gateway = await startToolsGateway({ pipeline: withAcme, prepare: install });
  const both = ["acme_greet", "gateway_batch"];
  assert.deepEqual(await namesOnEveryTransport(gateway), { rpc: both, mcp: both, discovery: both });
  const greeting = '{"text":"hi Bob","workspace":"test"}';

  const rpc = await send(gateway, call("acme_greet", { name: "Bob" }));
  assert.equal(
    rpc.text,
    `{"jsonrpc":"2.0","id":1,"result":{"content":${greeting},"usedCUMilli":30}}`,
  );
  const params = { name: "acme_greet", arguments: { name: "Bob" } };
  const mcpCall = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
  const mcp = (await send(gateway, mcpCall, { path: "/mcp" })).json as {
    result: { content: { text: string }[]; _meta: { usedCUMilli: number } };
  };
  assert.equal(mcp.result.content[0]?.text, greeting);
  assert.equal(mcp.result._meta.usedCUMilli, 30);
  const calls = [
    { tool: "acme_greet", params: { name: "Bob" } },
    { tool: "acme_greet", params: { name: "nobody" } },
    { tool: "acme_greet", params: {} },
  ];
  const batch = await send(gateway, call("gateway_batch", { calls }));
  assert.equal(batch.headers["x-used-cu-milli"], "30");
  assert.match(batch.text, /"error":"GATEWAY_NOT_FOUND: there is nobody"/);
  assert.match(batch.text, /"error":"GATEWAY_SCHEMA_VIOLATION: /);

  const { key } = await gateway.issue({ capabilities: ["ledger:read"] });
  const denied = await send(gateway, call("acme_greet", { name: "Bob" }), { key });
  assert.match(denied.text, /"code":-32001,.*"errorCode":"GATEWAY_PERMISSION_DENIED"/);
});

it("charges are recorded by surface and tool, including those inside a batch", async () => {
  await using gateway = await startToolsGateway();
  const calls = [
    { tool: "raw", params: {} },
    { tool: "fails", params: {} },
  ];
  await send(gateway, call("echo", { text: "x" }), { headers: { "x-request-id": "one" } });
  await send(gateway, call("throws"), { headers: { "x-request-id": "two" } });
  await send(gateway, call("gateway_batch", { calls }), { headers: { "x-request-id": "three" } });
  await gateway.gateway.stop();
  const rows = [...readUsage(join(gateway.folder, "data"))];
  assert.deepEqual(
    rows
      .filter(({ usedMilliCu }) => usedMilliCu > 0)
      .map((row) => [row.requestId, row.surface, row.method, row.usedMilliCu, row.keyId]),
    [
      ["one", "tool-rpc", "echo", 100, gateway.keyId],
      ["three", "tool-rpc", "raw", 100, gateway.keyId],
    ],
  );
});

it("the X-Agent-* headers are in the access log and in the record of a charge", async () => {
  await using gateway = await startToolsGateway();
  const headers = {
    "x-agent-name": "Planner",
    "x-agent-version": "1.2",
    "x-agent-session-id": "s-1",
    "x-agent-provider": "Acme",
    "x-agent-capabilities": "tools, batch",
  };
  await send(gateway, call("echo", { text: "x" }), { headers });
  await send(gateway, call("echo", { text: "x" }), { headers: { "x-request-id": "r" } });
  await send(gateway, listing, { headers: { "x-agent-name": `me ${gateway.key}` } });
  await send(gateway, listing);
  await gateway.gateway.stop();
  const lines = readFileSync(join(gateway.folder, "access.log"), "utf8").trimEnd().split("\n");
  const agents = lines.map((line) => Object(JSON.parse(line))["agent"] as unknown);
  const planner = {
    name: "Planner",
    version: "1.2",
    sessionId: "s-1",
    provider: "Acme",
    capabilities: ["tools", "batch"],
  };
  assert.deepEqual(agents[0], planner);
  assert.equal(agents[1], undefined);
  assert.ok(agents[2] !== undefined && !lines[2]?.includes(gateway.key.slice(-32)));
  assert.equal(agents[3], undefined);
  const charges = [...readUsage(join(gateway.folder, "data"))];
  assert.deepEqual(
    charges.map(({ agent, method }) => [agent, method]),
    [
      [planner, "echo"],
      [undefined, "echo"],
    ],
  );
  assert.match(charges[0]?.requestId ?? "", /^[0-9a-f-]{36}$/);
  assert.equal(charges[1]?.requestId, "r");
});

it("a reload changes the catalogue of every transport at once; one that fails changes nothing", async () => {
  await using gateway = await startToolsGateway({
    pipeline: pipelineOf("tools-plugin, platform-tools"),
  });
  const before = await namesOnEveryTransport(gateway);
  assert.equal(before["rpc"]?.includes("gateway_batch"), false);
  const calls = [{ tool: "platform_listModels", params: {} }];
  const batch = call("gateway_batch", { calls });
  assert.match((await send(gateway, batch)).text, /GATEWAY_TOOL_NOT_FOUND/);

  await gateway.write(pipelineOf("gateway-batch, platform-tools"));
  // A plugin that is declared but not used any more is a fault, so the old catalogue stays.
  assert.equal((await gateway.gateway.reloader.reload("test")).length, 1);
  assert.deepEqual(await namesOnEveryTransport(gateway), before);

  await gateway.write(pipelineOf("gateway-batch, tools-plugin"));
  assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
  const after = await namesOnEveryTransport(gateway);
  assert.equal(after["rpc"]?.[0], "gateway_batch");
  assert.deepEqual(after["mcp"], after["rpc"]);
  assert.deepEqual(after["discovery"], after["rpc"]);
  assert.match((await send(gateway, batch)).text, /"error":"GATEWAY_TOOL_NOT_FOUND: unknown tool"/);

  // The batch plugin is carried over, and sees the current tools.
  await gateway.write(pipelineOf("platform-tools, gateway-batch, tools-plugin"));
  assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
  assert.match((await send(gateway, batch)).text, /"tool":"platform_listModels","content":\[\]/);
  const write = call("gateway_batch", { calls: [{ tool: "write", params: { to: "a" } }] });
  assert.match((await send(gateway, write)).text, /GATEWAY_WRITE_IN_BATCH/);
});

it("a call that is running when the catalogue changes ends with the catalogue that it began with", async () => {
  const { seen } = await import("./tools-plugin.ts");
  await using gateway = await startToolsGateway();
  const begun = seen.hanging;
  const running = send(gateway, call("hangs"));
  while (seen.hanging === begun) await new Promise(setImmediate);
  await gateway.write(pipelineOf("gateway-batch, tools-plugin"));
  assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
  assert.match((await send(gateway, call("platform_listModels"))).text, /GATEWAY_TOOL_NOT_FOUND/);
  gateway.clock.advance(30_000);
  assert.match((await running).text, /"errorCode":"GATEWAY_TOOL_EXECUTION_ERROR"/);
});

it("the discovery document is public, has an ETag, and contains the version of this package", async () => {
  await using gateway = await startToolsGateway();
  const get = (headers: Record<string, string> = {}) =>
    send(gateway, undefined, { method: "GET", path: "/.well-known/mcp", key: null, headers });
  const first = await get();
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    version: string;
  };
  assert.equal(Object(first.json)["version"], version);
  assert.equal(first.headers["x-used-cu-milli"], undefined);
  const again = await get({ "if-none-match": String(first.headers.etag) });
  assert.deepEqual([again.status, again.text, again.headers.etag], [304, "", first.headers.etag]);
  const wrong = await send(gateway, "{}", { path: "/.well-known/mcp", key: null });
  assert.deepEqual([wrong.status, wrong.headers.allow], [405, "GET, HEAD"]);
});
