/**
 * Checks what operators see of a call (access log, /explain, Live view, metrics), even if the answer has HTTP status 200 and
 * the call was refused or failed. Finding D7.
 */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { explain } from "../../src/commands/explain.ts";
import type { CommandContext } from "../../src/commands/command.ts";
import type { Explanation } from "../../src/pipeline/observe/explanation.ts";
import { startTestGateway, type TestGateway } from "../../plugins/contracts/testing.ts";
import { whole } from "../plugins/inference/networks/worker-scripts.ts";
import { startWorker, type Worker } from "../plugins/inference/networks/scripted-worker.ts";
import { ask, signIn } from "../plugins/dashboard/dashboard/gateway.ts";
import { ask as send } from "./ask.ts";
import { startRpcNode, type RpcNode } from "./rpc-node.ts";

const pipeline = `
version: 1
server: { port: "\${PORT}", drainDelaySeconds: 0 }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
rate: "0.25"
plans:
  free: { rps: 1000, includedCu: 1, overageUsdPerCu: none }
  enterprise: { rps: 1000 }
upstreams:
  ledger: { urls: "\${NODE_URL}" }
networks:
  classic: { kind: openai, url: "\${WORKER_URL}", price_per_token_nano: "12" }
tools: [{ ledger-tools: { upstream: ledger, write: true } }, gateway-batch]
lists:
  edge: [request-id, { access-log: { file: access.log } }, authenticate, rate-limit]
  billed: [{ use: edge }, { authorize: { require: key } }, meter]
routes:
  - { path: /v1/ledger/rpc, methods: [POST], run: [{ use: billed }], to: { ledger-rpc: { upstream: ledger } } }
  - { path: /rpc, methods: [POST], run: [{ use: billed }], to: tool-rpc }
  - { path: /mcp, methods: [POST], run: [{ use: billed }], to: mcp }
  - { path: /v1/chat/completions, methods: [POST], run: [{ use: billed }], to: chat }
`;

interface Line {
  readonly level: number;
  readonly requestId: string;
  readonly status: number;
  readonly code?: string;
  readonly calls?: { readonly names: string[]; readonly items: number; readonly failed: number };
}

let node: RpcNode;
let worker: Worker;
let gateway: TestGateway;
let cookie: string;
let requests = 0;

before(async () => {
  node = await startRpcNode({ state_call: () => undefined });
  worker = await startWorker({ otherwise: whole({}) });
  gateway = await startTestGateway({
    pipeline,
    env: { NODE_URL: node.url, WORKER_URL: worker.url },
    account: {
      capabilities: ["platform:admin", "ledger:read", "ledger:write", "inference"],
    },
  });
  cookie = await signIn(gateway, gateway.key);
  await live();
  for (;;) if ((await fetch(`${gateway.url}/readyz`)).status === 200) break;
});

after(async () => {
  await gateway[Symbol.asyncDispose]();
  await node[Symbol.asyncDispose]();
  await worker[Symbol.asyncDispose]();
});

interface Seen {
  readonly text: string;
  readonly line: Line;
  readonly explanation: Explanation;
  readonly row: { readonly code?: string; readonly calls?: Line["calls"] };
}

async function observe(
  path: string,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<Seen> {
  const id = `called-${++requests}`;
  const { key, url } = gateway;
  const { text } = await send(url + path, {
    key,
    body,
    headers: { "x-request-id": id, ...headers },
  });
  return {
    text,
    line: await lineOf(id),
    explanation: await explanationOf(id),
    row: await rowOf(id),
  };
}

/** Waits for the line in the access log, which is written within 250 ms. The last line may be incomplete. */
async function lineOf(id: string): Promise<Line> {
  for (;;) {
    const text = await readFile(join(gateway.folder, "access.log"), "utf8");
    const complete = text.split("\n").slice(0, -1);
    const found = complete.find((line) => line.includes(`"${id}"`));
    if (found !== undefined) return JSON.parse(found) as Line;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

async function explanationOf(id: string): Promise<Explanation> {
  const [explanation] = (await send(`${gateway.adminUrl}/explain?id=${id}`)).json.exchanges;
  assert.ok(explanation !== undefined);
  return explanation;
}

async function live(): Promise<{ exchanges: (Seen["row"] & { request_id: string })[] }> {
  return (await ask(gateway, "live", { cookie })).body;
}

async function rowOf(id: string): Promise<Seen["row"]> {
  const found = (await live()).exchanges.find((row) => row.request_id === id);
  assert.ok(found !== undefined);
  return found;
}

async function metric(line: string): Promise<number> {
  const { text } = await send(`${gateway.adminUrl}/metrics`);
  const found = text.split("\n").find((each) => each.startsWith(`${line} `));
  return Number(found?.slice(line.length + 1) ?? 0);
}

const call = (method: string, params: unknown, id = 1): object => ({
  jsonrpc: "2.0",
  id,
  method,
  params,
});

function assertSeen(seen: Seen, name: string, code: string | undefined, did: string): void {
  const calls = { names: [name], items: 1, failed: code === undefined ? 0 : 1 };
  assert.deepEqual([seen.line.code, seen.line.calls], [code, calls]);
  assert.deepEqual([seen.row.code, seen.row.calls], [code, calls]);
  assert.deepEqual([seen.explanation.code, seen.explanation.calls], [code, calls]);
  assert.equal(seen.explanation.steps.at(-1)?.did, did);
  if (seen.line.status === 200) assert.equal(seen.line.level, code === undefined ? 30 : 40);
}

describe("the node proxy", () => {
  it("names the method that was called", async () => {
    const seen = await observe("/v1/ledger/rpc", call("system_chain", []));
    assertSeen(seen, "system_chain", undefined, "replied");
    const counted = await metric(
      'sluice_calls_total{route="/v1/ledger/rpc",kind="node",name="system_chain",code="ok"}',
    );
    assert.equal(counted, 1);
  });

  it("shows a method that is not whitelisted as refused, though its HTTP status is 200", async () => {
    const seen = await observe("/v1/ledger/rpc", call("author_rotateKeys", []));
    assert.match(seen.text, /-32601/);
    assertSeen(seen, "author_rotateKeys", "METHOD_NOT_ALLOWED", "refused");
    assert.equal(seen.explanation.steps.at(-1)?.reason, "method not whitelisted");
    const refusals = 'sluice_refusals_total{route="/v1/ledger/rpc",code="METHOD_NOT_ALLOWED"}';
    assert.ok((await metric(refusals)) >= 1);
  });

  it("counts names that are not whitelisted together, and shows only texts that look like a name", async () => {
    const other =
      'sluice_calls_total{route="/v1/ledger/rpc",kind="node",name="other",code="METHOD_NOT_ALLOWED"}';
    const earlier = await metric(other);
    const odd = await observe("/v1/ledger/rpc", call('x" y\n', []));
    assertSeen(odd, "other", "METHOD_NOT_ALLOWED", "refused");
    const secret = await observe("/v1/ledger/rpc", call(gateway.key, []));
    assertSeen(secret, "gateway_dev_[redacted]", "METHOD_NOT_ALLOWED", "refused");
    await observe("/v1/ledger/rpc", call("made_up", []));
    assert.equal(await metric(other), earlier + 3);
    const { text } = await send(`${gateway.adminUrl}/metrics`);
    assert.ok(!text.includes("made_up") && !text.includes(gateway.key));
  });

  it("shows an error of the node as a failed call", async () => {
    const seen = await observe("/v1/ledger/rpc", call("state_call", ["Core_version", "0x"]));
    assertSeen(seen, "state_call", "NODE_ERROR", "failed");
  });

  it("shows a body that is not JSON", async () => {
    assertSeen(await observe("/v1/ledger/rpc", "{"), "other", "PARSE_ERROR", "refused");
    assertSeen(await observe("/v1/ledger/rpc", "1"), "other", "INVALID_REQUEST", "refused");
  });

  it("summarises a batch: number of items, number of failures, and methods", async () => {
    const seen = await observe("/v1/ledger/rpc", [
      call("system_chain", []),
      call("system_chain", [], 2),
      call("author_rotateKeys", [], 3),
      { jsonrpc: "2.0", method: "system_chain" },
    ]);
    const calls = { names: ["author_rotateKeys", "system_chain"], items: 3, failed: 1 };
    const sorted = { ...seen.line.calls, names: seen.line.calls?.names.toSorted() };
    assert.deepEqual(sorted, calls);
    assert.equal(seen.line.code, "METHOD_NOT_ALLOWED");
    assert.deepEqual(seen.row.calls, seen.line.calls);
    assert.equal(seen.explanation.steps.at(-1)?.did, "replied");
  });

  it("names the call that a key without credit requested", async () => {
    const poor = await gateway.issue({ plan: "free", capabilities: ["ledger:read"] });
    const headers = { authorization: `Bearer ${poor.key}` };
    const seen = await observe(
      "/v1/ledger/rpc",
      call("state_call", ["Core_version", "0x"]),
      headers,
    );
    assert.equal(seen.line.status, 429);
    assertSeen(seen, "state_call", "GATEWAY_CU_LIMIT_EXCEEDED", "refused");
    const two = [call("state_call", [], 1), call("made_up", [], 2)];
    const { line } = await observe("/v1/ledger/rpc", two, headers);
    assert.deepEqual([line.code, line.calls?.failed], ["GATEWAY_CU_LIMIT_EXCEEDED", 2]);
  });

  it("names at most eight methods of a batch", async () => {
    const many = Array.from({ length: 50 }, (_, i) => call(`made_up${i}`, [], i));
    const { line } = await observe("/v1/ledger/rpc", many);
    assert.deepEqual([line.calls?.names.length, line.calls?.items], [8, 50]);
  });
});

describe("tool calls over /rpc", () => {
  const tool = (name: string, params: object): object => call("tools.call", { tool: name, params });

  it("names the tool, and shows its failure", async () => {
    assertSeen(
      await observe("/rpc", tool("ledger_getHealth", {})),
      "ledger_getHealth",
      undefined,
      "replied",
    );
    const wrong = await observe("/rpc", tool("ledger_getHealth", { height: "x" }));
    assertSeen(wrong, "ledger_getHealth", "GATEWAY_SCHEMA_VIOLATION", "refused");
    const unknown = await observe("/rpc", tool("no_such_tool", {}));
    assertSeen(unknown, "no_such_tool", "GATEWAY_TOOL_NOT_FOUND", "refused");
    const other = `sluice_calls_total{route="/rpc",kind="tool",name="other",code="GATEWAY_TOOL_NOT_FOUND"}`;
    assert.equal(await metric(other), 1);
  });

  it("shows a method that does not exist, a body that is not JSON and a list", async () => {
    const unknown = await observe("/rpc", call("ledger_getHealth", {}));
    assertSeen(unknown, "ledger_getHealth", "METHOD_NOT_FOUND", "refused");
    assertSeen(await observe("/rpc", "{"), "other", "PARSE_ERROR", "refused");
    assertSeen(await observe("/rpc", call("tools.list", {})), "tools.list", undefined, "replied");
    const wrong = await observe("/rpc", call("tools.call", {}));
    assertSeen(wrong, "tools.call", "INVALID_PARAMS", "refused");
  });

  it("shows the calls inside gateway_batch in addition to the batch itself", async () => {
    const calls = [
      { tool: "ledger_getHealth", params: {} },
      { tool: "ledger_getBlock", params: {} },
    ];
    const { line, explanation } = await observe("/rpc", tool("gateway_batch", { calls }));
    assert.deepEqual(line.calls?.names.toSorted(), [
      "gateway_batch",
      "ledger_getBlock",
      "ledger_getHealth",
    ]);
    assert.deepEqual([line.calls?.items, line.calls?.failed], [3, 1]);
    assert.equal(line.code, "GATEWAY_INVALID_PARAMS");
    assert.equal(explanation.steps.at(-1)?.did, "replied");
  });
});

describe("tool calls over /mcp", () => {
  const stateless = {
    _meta: {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientCapabilities": {},
    },
  };
  const headers = (method: string, name?: string): Record<string, string> => ({
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": method,
    ...(name !== undefined && { "mcp-name": name }),
  });

  it("shows a failed result in each of the three protocols", async () => {
    const plain = await observe("/mcp", { tool: "ledger_getBlock", input: {} });
    assertSeen(plain, "ledger_getBlock", "GATEWAY_INVALID_PARAMS", "refused");
    const asked = call("tools/call", { name: "ledger_getBlock", arguments: {} });
    const session = await observe("/mcp", asked);
    assertSeen(session, "ledger_getBlock", "GATEWAY_INVALID_PARAMS", "refused");
    const body = call("tools/call", { name: "ledger_getBlock", arguments: {}, ...stateless });
    const newest = await observe("/mcp", body, headers("tools/call", "ledger_getBlock"));
    assertSeen(newest, "ledger_getBlock", "GATEWAY_INVALID_PARAMS", "refused");
  });

  it("names the methods of the protocol, and shows their errors", async () => {
    assertSeen(await observe("/mcp", call("ping", {})), "ping", undefined, "replied");
    const session = await observe("/mcp", call("no/such", {}));
    assertSeen(session, "no/such", "METHOD_NOT_FOUND", "refused");
    const newest = await observe("/mcp", call("tools/list", stateless), headers("tools/list"));
    assertSeen(newest, "tools/list", undefined, "replied");
    const unknown = await observe("/mcp", call("no/such", stateless), headers("no/such"));
    assertSeen(unknown, "no/such", "METHOD_NOT_FOUND", "refused");
    assert.equal((await observe("/mcp", "{")).line.code, "PARSE_ERROR");
  });

  it("reports a write tool that asks for confirmation as one call", async () => {
    const { line } = await observe("/mcp", {
      tool: "ledger_submitExtrinsic",
      input: { extrinsic: "0x00" },
    });
    assert.deepEqual(line.calls?.names, ["ledger_submitExtrinsic"]);
    assert.equal(line.calls?.items, 1);
  });
});

describe("chat completions", () => {
  const chat = (model: string): object => ({ model, messages: [{ role: "user", content: "a" }] });

  it("names the model, and shows one that does not exist", async () => {
    const model = "Test/Model-1";
    const seen = await observe("/v1/chat/completions", chat(model));
    assertSeen(seen, model, undefined, "replied");
    const unknown = await observe("/v1/chat/completions", chat("no/such-model:1b"));
    assertSeen(unknown, "no/such-model:1b", "MODEL_NOT_FOUND", "refused");
    const text = await observe("/v1/chat/completions", chat("any text"));
    assertSeen(text, "other", "MODEL_NOT_FOUND", "refused");
  });
});

describe("sluice explain", () => {
  it("prints the calls and the reasons for their refusal", async () => {
    const { explanation } = await observe("/v1/ledger/rpc", call("author_rotateKeys", []));
    const lines: string[] = [];
    // The command uses no other member.
    const context = {
      json: false,
      env: {},
      configFile: "",
      print: (line: string) => lines.push(line),
      printToStderr: (line: string) => lines.push(line),
      signal: new AbortController().signal,
    } as unknown as CommandContext;
    assert.equal(
      await explain.run(context, { admin: gateway.adminUrl }, [explanation.request_id]),
      0,
    );
    const text = lines.join("\n");
    assert.match(text, /^ {2}called author_rotateKeys \(failed\)$/m);
    assert.match(text, /ledger-rpc +refused: method not whitelisted/);
  });
});
