/** A gateway in front of nodes of a test chain, whose answers it proves. */
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { startTestGateway, type TestGateway } from "../../../plugins/contracts/testing.ts";
import { serveNode } from "./node-server.ts";
import type { TestChain } from "./test-chain.ts";

export interface Setup {
  readonly gateway: TestGateway;
  readonly chain: TestChain;
  readonly urls: readonly string[];
}

export interface Answer {
  readonly proof: string | null;
  readonly result?: unknown;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown };
}

/** Returns the answer of a node. Undefined to answer like the others. */
export type Lie = (method: string, params: readonly unknown[]) => unknown;

/** `lies`: one per node. `answer`: what no chain answers, such as reads of the state. */
export async function startProved(
  t: TestContext,
  chain: TestChain,
  options: object,
  lies: readonly Lie[],
  answer: Lie,
): Promise<Setup> {
  const urls: string[] = [];
  for (const lie of lies) {
    const server = await serveNode({
      async call(method, params) {
        const given = (await lie(method, params)) ?? (await answer(method, params));
        return given === undefined ? chain.answer(method, params) : given;
      },
    });
    t.after(() => server[Symbol.asyncDispose]());
    urls.push(server.url);
  }
  return await startProvedGateway(t, chain, { urls, ...options });
}

/** `options`: the entry of the section `upstreams`. */
export async function startProvedGateway(
  t: TestContext,
  chain: TestChain,
  options: { readonly urls: readonly string[] },
): Promise<Setup> {
  const pipeline = pipelineOf({ checkpoint: chain.checkpoint(0), ...options });
  const gateway = await startTestGateway({ pipeline });
  t.after(() => gateway[Symbol.asyncDispose]());
  return { gateway, chain, urls: options.urls };
}

export function pipelineOf(upstream: object): string {
  return `
version: 1
environment: dev
secret: at-least-sixteen-characters
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
upstreams:
  main: ${JSON.stringify(upstream)}
tools: [{ ledger-tools: { upstream: main } }]
routes:
  - path: /mcp
    methods: [POST]
    run: [request-id, { authenticate: {} }, { authorize: { require: key } }, meter]
    to: mcp
  - path: /rpc
    methods: [POST]
    run: [request-id, { authenticate: {} }, { authorize: { require: key } }, meter]
    to: { ledger-rpc: { upstream: main } }
  - path: /rpc
    websocket: true
    run: [request-id, { authenticate: {} }, { authorize: { require: key } }, meter]
    to: { ledger-ws: { upstream: main } }
  - path: /ws/{key}
    websocket: true
    credential: key
    run: [request-id, { authenticate: {} }, { authorize: { require: key } }, meter]
    to: { ledger-ws: { upstream: main } }
`;
}

export async function post(
  gateway: TestGateway,
  body: unknown,
  wanted?: string,
): Promise<Response> {
  return await fetch(`${gateway.url}/rpc`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      authorization: `Bearer ${gateway.key}`,
      ...(wanted !== undefined && { "x-sluice-proof": wanted }),
    },
    body: JSON.stringify(body),
  });
}

export async function call(
  { gateway }: Setup,
  method: string,
  params: readonly unknown[],
  wanted?: string,
): Promise<Answer> {
  const response = await post(gateway, { jsonrpc: "2.0", id: "x", method, params }, wanted);
  assert.equal(response.status, 200);
  const answer = (await response.json()) as { readonly id: string };
  assert.equal(answer.id, "x");
  return { ...answer, proof: response.headers.get("x-sluice-proof") };
}

export async function charged({ gateway }: Setup): Promise<number> {
  const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  return Number(/^sluice_charged_cu_milli_total\{.*\} (\d+)$/m.exec(text)?.[1] ?? 0);
}
