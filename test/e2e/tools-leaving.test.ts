/**
 * A client that leaves pays for the calls that the node or a tool's worker has received, on every surface that calls
 * tools and on the node proxy. Calls that have not begun are not started.
 */
import assert from "node:assert/strict";
import { request, type ClientRequest, type IncomingMessage } from "node:http";
import { join } from "node:path";
import { describe, it } from "node:test";
import { readUsage } from "../../plugins/billing/metering/read-usage.ts";
import { startTestGateway, type TestGateway } from "../../plugins/contracts/testing.ts";
import { ask } from "./ask.ts";
import { stateless } from "./mcp-gateway.ts";
import { startRpcNode, type RpcNode } from "./rpc-node.ts";
import { worker } from "./slow-tools.ts";

const moments = [
  "before its request is whole",
  "while the work is done",
  "after the work is done",
  "before the last byte",
] as const;
type Moment = (typeof moments)[number];

/** A node that answers reads of storage when the test opens its gate, and everything else at once. */
class GatedNode {
  asked = 0;
  gate = Promise.withResolvers<void>();
  onAsked: () => void = () => {};
  #node: RpcNode | undefined;

  async start(): Promise<string> {
    this.#node = await startRpcNode({
      state_getStorage: async () => {
        this.asked++;
        this.onAsked();
        await this.gate.promise;
        return "0x01";
      },
    });
    return this.#node.url;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#node?.[Symbol.asyncDispose]();
  }
}

const pipeline = `
version: 1
store: { data: "\${DATA_DIR}" }
server: { port: "\${PORT}", drainDelaySeconds: 0 }
admin: { port: "\${ADMIN_PORT}" }
plans: { enterprise: { rps: 1000000, includedCu: 499000000 } }
upstreams:
  ledger: { urls: "\${NODE_URL}" }
plugins: { slow-tools: ${JSON.stringify(join(import.meta.dirname, "slow-tools.ts"))} }
tools: [ledger-tools, slow-tools, gateway-batch]
lists:
  agents: [request-id, authenticate, rate-limit, { authorize: { require: key } }, meter]
routes:
  - { path: /rpc, methods: [POST], run: [{ use: agents }], to: tool-rpc }
  - { path: /mcp, methods: [POST, DELETE], run: [{ use: agents }], to: mcp }
  - { path: /node, methods: [POST], run: [{ use: agents }], to: { ledger-rpc: { upstream: ledger } } }
`;

const slow = "slow_read";
const write = "slow_write";
const storage = "ledger_getStorage";
let keys = 0;
/** Returns a storage key that nobody has requested before, so that nothing of it is cached. */
const newKey = (): string => `0x${(++keys).toString(16).padStart(64, "0")}`;

interface Wanted {
  readonly path: string;
  readonly body: object;
  readonly headers?: Readonly<Record<string, string>>;
}

type Body = (call: { readonly tool: string; readonly input: object }) => Wanted;

const surfaces: Readonly<Record<string, Body>> = {
  "/rpc": ({ tool, input }) => ({
    path: "/rpc",
    body: { jsonrpc: "2.0", id: 1, method: "tools.call", params: { tool, params: input } },
  }),
  "an array of one on /rpc": ({ tool, input }) => ({
    path: "/rpc",
    body: [{ jsonrpc: "2.0", id: 1, method: "tools.call", params: { tool, params: input } }],
  }),
  "the plain lane of /mcp": ({ tool, input }) => ({ path: "/mcp", body: { tool, input } }),
  "the session lane of /mcp": ({ tool, input }) => ({
    path: "/mcp",
    headers: { "mcp-protocol-version": "2025-11-25" },
    body: {
      jsonrpc: "2.0",
      id: 1,
      method: "tools/call",
      params: { name: tool, arguments: input },
    },
  }),
  "an array on the session lane of /mcp": ({ tool, input }) => ({
    path: "/mcp",
    headers: { "mcp-protocol-version": "2025-03-26" },
    body: [
      { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: tool, arguments: input } },
    ],
  }),
  "the stateless lane of /mcp": ({ tool, input }) => {
    const _meta = { progressToken: "p" };
    return { path: "/mcp", ...stateless("tools/call", { name: tool, arguments: input, _meta }) };
  },
};

/** Begins a request. The caller must end it with `text`, or leave. */
function open(
  { url, key }: TestGateway,
  { path, body, headers }: Wanted,
  id: string,
): { req: ClientRequest; text: string } {
  const text = JSON.stringify(body);
  const req = request(url + path, {
    method: "POST",
    agent: false,
    headers: {
      authorization: `Bearer ${key}`,
      "content-type": "application/json",
      "content-length": Buffer.byteLength(text),
      "x-request-id": id,
      ...headers,
    },
  });
  return { req: req.on("error", () => {}), text };
}

/** Runs one client that leaves. Resolves with the calls that the node and the worker received by the end. */
async function leave(
  { gateway, node }: Setup,
  wanted: Wanted,
  moment: Moment,
  id: string,
): Promise<number> {
  const before = node.asked + worker.asked;
  const gate = Promise.withResolvers<void>();
  node.gate = gate;
  worker.gate = gate.promise;
  const begun = Promise.withResolvers<void>();
  node.onAsked = worker.onAsked = begun.resolve;
  const { req, text } = open(gateway, wanted, id);
  const gone = new Promise<void>((resolve) => req.once("close", () => resolve()));
  const answered = new Promise<void>((resolve) => req.once("response", () => resolve()));
  await leaveAt(req, text, moment, { gate, begun: begun.promise, answered });
  await gone;
  // After a further exchange on another connection, the gateway has noticed that this one has closed.
  await (await fetch(`${gateway.url}/healthz`)).text();
  gate.resolve();
  while (gateway.gateway.listener.running > 0) await new Promise(setImmediate);
  return node.asked + worker.asked - before;
}

interface Events {
  readonly gate: PromiseWithResolvers<void>;
  readonly begun: Promise<void>;
  readonly answered: Promise<void>;
}

async function leaveAt(
  req: ClientRequest,
  text: string,
  moment: Moment,
  { gate, begun, answered }: Events,
): Promise<void> {
  if (moment === "before its request is whole") {
    req.write(text.slice(0, -1), () => setImmediate(() => req.destroy()));
    return;
  }
  req.end(text);
  await begun;
  if (moment !== "while the work is done") gate.resolve();
  if (moment === "after the work is done") await new Promise(setImmediate);
  if (moment === "before the last byte") await answered;
  req.destroy();
}

interface Setup {
  readonly gateway: TestGateway;
  readonly node: GatedNode;
}

/** Runs the cases, stops the gateway, and returns the charges in milli-CU by request id. */
async function charges(
  run: (setup: Setup) => Promise<void>,
): Promise<ReadonlyMap<string, readonly number[]>> {
  await using node = new GatedNode();
  await using gateway = await startTestGateway({
    pipeline,
    env: { NODE_URL: await node.start() },
    account: { capabilities: ["ledger:read", "ledger:write"] },
  });
  await run({ gateway, node });
  await gateway.gateway.stop();
  const rows = [...readUsage(join(gateway.folder, "data"))];
  const byRequest = Map.groupBy(rows, ({ requestId }) => requestId);
  return new Map([...byRequest].map(([id, all]) => [id, all.map((row) => row.usedMilliCu)]));
}

describe("a client that leaves", () => {
  it("pays for every call that the node or the tool's worker has received, on every surface and at every moment", async () => {
    const expected: (readonly [id: string, costs: readonly number[]])[] = [];
    const charged = await charges(async (setup) => {
      for (const [name, body] of Object.entries(surfaces)) {
        for (const moment of moments) {
          const calls = [
            { tool: storage, input: { key: newKey() }, cost: 200 },
            { tool: slow, input: {}, cost: 300 },
          ];
          for (const call of calls) {
            const id = `${name}:${moment}:${call.tool}`.replaceAll(" ", "_");
            const asked = await leave(setup, body(call), moment, id);
            assert.equal(asked, moment === "before its request is whole" ? 0 : 1, id);
            expected.push([id, Array<number>(asked).fill(call.cost)]);
          }
        }
      }
    });
    for (const [id, costs] of expected) assert.deepEqual(charged.get(id) ?? [], costs, id);
  });

  it("pays for a write that it has confirmed", async () => {
    const ids: string[] = [];
    const charged = await charges(async (setup) => {
      for (const name of ["/rpc", "the plain lane of /mcp"]) {
        for (const moment of moments.slice(1)) {
          const confirmation_token = await tokenOf(setup.gateway);
          const call = { tool: write, input: { confirmation_token } };
          const id = `${name}:${moment}`.replaceAll(" ", "_");
          ids.push(id);
          const body = surfaces[name];
          assert(body !== undefined);
          assert.equal(await leave(setup, body(call), moment, id), 1, id);
        }
      }
    });
    for (const id of ids) assert.deepEqual(charged.get(id), [1000], id);
  });

  it("pays for the calls of an array or a batch that have begun, and no others begin", async () => {
    const calls = (): object[] =>
      Array.from({ length: 6 }, () => ({ tool: storage, params: { key: newKey() } }));
    const batches: Readonly<Record<string, { wanted: () => Wanted; begun: number }>> = {
      // The surface runs four calls at the same time.
      rpc: {
        begun: 4,
        wanted: () => ({
          path: "/rpc",
          body: calls().map((params, id) => ({ jsonrpc: "2.0", id, method: "tools.call", params })),
        }),
      },
      mcp: {
        begun: 1,
        wanted: () => ({
          path: "/mcp",
          headers: { "mcp-protocol-version": "2025-03-26" },
          body: calls().map((_, id) => ({
            jsonrpc: "2.0",
            id,
            method: "tools/call",
            params: { name: storage, arguments: { key: newKey() } },
          })),
        }),
      },
      ...Object.fromEntries(
        Object.entries(surfaces).map(([name, body]) => [
          `batch:${name}`,
          {
            begun: 1,
            wanted: () => body({ tool: "gateway_batch", input: { calls: calls() } }),
          },
        ]),
      ),
    };
    const asked = new Map<string, number>();
    const charged = await charges(async (setup) => {
      for (const [name, { wanted }] of Object.entries(batches)) {
        for (const moment of moments) {
          const id = `${name}:${moment}`.replaceAll(" ", "_");
          asked.set(id, await leave(setup, wanted(), moment, id));
        }
      }
    });
    for (const [name, { begun }] of Object.entries(batches)) {
      const id = `${name}:while the work is done`.replaceAll(" ", "_");
      assert.equal(asked.get(id), begun, id);
    }
    for (const [id, count] of asked) {
      const costs = (charged.get(id) ?? []).filter((cost) => cost > 0);
      assert.deepEqual(costs, Array<number>(count).fill(200), id);
    }
  });

  it("pays for a call that it sent to the node itself", async () => {
    const asked = new Map<string, number>();
    const charged = await charges(async (setup) => {
      for (const moment of moments) {
        for (const items of [1, 3]) {
          const body = Array.from({ length: items }, (_, id) => ({
            jsonrpc: "2.0",
            id,
            method: "state_getStorage",
            params: [newKey()],
          }));
          const id = `${items}:${moment}`.replaceAll(" ", "_");
          const wanted = { path: "/node", body: items === 1 ? (body[0] ?? {}) : body };
          asked.set(id, await leave(setup, wanted, moment, id));
        }
      }
    });
    for (const [id, count] of asked) {
      const sum = (charged.get(id) ?? []).reduce((total, cost) => total + cost, 0);
      // The price of state_getStorage on the proxy.
      assert.equal(sum, 500 * count, id);
      assert.equal(count > 0, !id.includes("before_its_request"), id);
    }
  });

  it("delays a drain until its call has ended, and pays", async () => {
    let stopped = false;
    const charged = await charges(async ({ gateway, node }) => {
      const gate = Promise.withResolvers<void>();
      node.gate = gate;
      const begun = Promise.withResolvers<void>();
      node.onAsked = begun.resolve;
      const wanted = surfaces["/rpc"]!({ tool: storage, input: { key: newKey() } });
      const { req, text } = open(gateway, wanted, "drained");
      req.on("response", (res: IncomingMessage) => res.resume());
      req.end(text);
      await begun.promise;
      req.destroy();
      const stopping = gateway.gateway.stop().then(() => (stopped = true));
      // When nothing answers there any more, the main listener and its connections are closed.
      const isListening = () =>
        ask(`${gateway.url}/healthz`).then(
          () => true,
          () => false,
        );
      while (await isListening()) await new Promise(setImmediate);
      assert.equal(stopped, false);
      gate.resolve();
      await stopping;
    });
    assert.deepEqual(charged.get("drained"), [200]);
  });
});

async function tokenOf({ url, key }: TestGateway): Promise<unknown> {
  const body = { jsonrpc: "2.0", id: 1, method: "tools.call", params: { tool: write, params: {} } };
  const { json } = await ask(`${url}/rpc`, { key, body });
  // gateway.md, "Per-transport shapes".
  return json.error.data.details.confirmation_token;
}
