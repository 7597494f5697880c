/**
 * A client that leaves pays for the calls that the node or a tool's worker has received, on every surface that calls
 * tools and on the node proxy. Calls that have not begun are not started.
 */
import assert from "node:assert/strict";
import { createServer, request, type ClientRequest, type IncomingMessage } from "node:http";
import { join } from "node:path";
import { describe, it } from "node:test";
import { readUsage } from "../../plugins/billing/metering/read-usage.ts";
import { startTestGateway, type TestGateway } from "../../plugins/contracts/testing.ts";
import { worker } from "./slow-tools.ts";
import { closed, healthyNode, listening } from "./rpc-node.ts";

const moments = [
  "before its request is whole",
  "while the work is done",
  "after the work is done",
  "before the last byte",
] as const;
type Moment = (typeof moments)[number];

interface Call {
  readonly method: string;
  readonly params?: readonly unknown[];
  readonly id: unknown;
}

/** A node that answers reads of storage when the test opens its gate, and everything else at once. */
class GatedNode {
  readonly asked: string[] = [];
  gate = Promise.withResolvers<void>();
  onAsked: () => void = () => {};
  readonly #server = createServer((req, res) => {
    let text = "";
    req.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
    req.on("end", () => {
      // One request of the gateway: a call or a batch.
      const asked = JSON.parse(text) as Call | Call[];
      const answers = Array.isArray(asked)
        ? Promise.all(asked.map((call) => this.#answer(call)))
        : this.#answer(asked);
      void answers.then((body) =>
        res.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body)),
      );
    });
  });

  start(): Promise<string> {
    return listening(this.#server);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return closed(this.#server);
  }

  async #answer({ id, method, params = [] }: Call): Promise<object> {
    if (method !== "state_getStorage") {
      return { jsonrpc: "2.0", id, result: healthyNode[method]?.(params) ?? null };
    }
    this.asked.push(String(params[0]));
    this.onAsked();
    await this.gate.promise;
    return { jsonrpc: "2.0", id, result: "0x01" };
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

const stateless = (params: object): Wanted => ({
  path: "/mcp",
  headers: {
    accept: "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": (params as { name: string }).name,
  },
  body: {
    jsonrpc: "2.0",
    id: 1,
    method: "tools/call",
    params: {
      ...params,
      _meta: {
        progressToken: "p",
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { name: "t", version: "1" },
      },
    },
  },
});

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
  "the stateless lane of /mcp": ({ tool, input }) => stateless({ name: tool, arguments: input }),
};

/** Runs one client that leaves. Resolves with the calls that the node and the worker received by the end. */
async function leave(
  { gateway, node }: Setup,
  { path, body, headers = {} }: Wanted,
  moment: Moment,
  id: string,
): Promise<number> {
  const before = node.asked.length + worker.asked;
  const gate = Promise.withResolvers<void>();
  node.gate = gate;
  worker.gate = gate.promise;
  const begun = Promise.withResolvers<void>();
  node.onAsked = worker.onAsked = begun.resolve;
  const text = JSON.stringify(body);
  const req = request(gateway.url + path, {
    method: "POST",
    agent: false,
    headers: {
      authorization: `Bearer ${gateway.key}`,
      "content-type": "application/json",
      "content-length": Buffer.byteLength(text),
      "x-request-id": id,
      ...headers,
    },
  });
  const gone = new Promise<void>((resolve) => req.once("close", resolve));
  req.on("error", () => {});
  const answered = new Promise<void>((resolve) => req.once("response", () => resolve()));
  await leaveAt(req, text, moment, { gate, begun: begun.promise, answered });
  await gone;
  // After a further exchange on another connection, the gateway has noticed that this one has closed.
  await (await fetch(`${gateway.url}/healthz`)).text();
  gate.resolve();
  while (gateway.gateway.listener.running > 0) await new Promise(setImmediate);
  return node.asked.length + worker.asked - before;
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
      const wanted = surfaces["/rpc"]?.({ tool: storage, input: { key: newKey() } });
      const req = request(gateway.url + (wanted?.path ?? ""), {
        method: "POST",
        agent: false,
        headers: {
          authorization: `Bearer ${gateway.key}`,
          "content-type": "application/json",
          "x-request-id": "drained",
        },
      });
      req.on("error", () => {});
      req.on("response", (res: IncomingMessage) => res.resume());
      req.end(JSON.stringify(wanted?.body));
      await begun.promise;
      req.destroy();
      const stopping = gateway.gateway.stop().then(() => (stopped = true));
      // When nothing answers there any more, the main listener and its connections are closed.
      while (await isListening(`${gateway.url}/healthz`)) await new Promise(setImmediate);
      assert.equal(stopped, false);
      gate.resolve();
      await stopping;
    });
    assert.deepEqual(charged.get("drained"), [200]);
  });
});

async function isListening(url: string): Promise<boolean> {
  return fetch(url).then(
    () => true,
    () => false,
  );
}

async function tokenOf({ url, key }: TestGateway): Promise<unknown> {
  const response = await fetch(`${url}/rpc`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      method: "tools.call",
      params: { tool: write, params: {} },
    }),
  });
  // gateway.md, "Per-transport shapes".
  const { error } = (await response.json()) as {
    error: { data: { details: { confirmation_token: string } } };
  };
  return error.data.details.confirmation_token;
}
