/** The interfaces of a gateway with three threads, over TLS: each client is served by all threads as by one. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { connect as connectHttp2 } from "node:http2";
import { Agent, request } from "node:https";
import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { startTestGateway, type TestGateway } from "../../plugins/contracts/testing.ts";
import { readUsage } from "../../plugins/billing/metering/read-usage.ts";
import { cert, key as privateKey } from "../certificate.ts";
import { send } from "../http/http2/client.ts";
import { chunkOf, eventOf } from "../plugins/inference/networks/chat-events.ts";
import {
  startWorker,
  type Exchange,
  type Worker,
} from "../plugins/inference/networks/scripted-worker.ts";
import { ChainNode } from "../plugins/ledger/ledger/feed/chain-node.ts";
import { request as rpc } from "../plugins/ledger/ledger/fixture.ts";
import { connectWs, type WsClient } from "../plugins/ledger/ledger-ws/ws-client.ts";
import { until } from "../plugins/ledger/until.ts";

const threads = 3;
const pipeline = `version: 1
server: { port: "\${PORT}", threads: ${threads}, drainDelaySeconds: 0, tls: { cert: ./tls.crt, key: ./tls.key } }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
plans: { enterprise: { rps: 1000000, includedCu: 1000000000 } }
rate: "0.25"
upstreams: { ledger: { urls: "\${NODE_URL}", probeMs: 100 } }
networks: { classic: { kind: openai, url: "\${WORKER_URL}", price_per_token_nano: "12" } }
plugins: { thread: ./thread.js }
lists:
  paid: [thread, request-id, authenticate, { authorize: { require: key } }, meter, idempotency]
routes:
  - { path: /, methods: [GET], run: [thread, request-id], to: discovery }
  - { path: /v1/chat/completions, methods: [POST], run: [{ use: paid }], to: chat }
  - { path: /v1/ledger/rpc, websocket: true, run: [{ use: paid }], to: { ledger-ws: { upstream: ledger } } }
`;
const step = `export default {
  kind: "step", name: "thread", description: "x",
  start: (_, { threads }) => ({ responseHeaders: (_, head) => head.set("x-thread", String(threads?.index)) }),
};
`;

const stack = new AsyncDisposableStack();
let node: ChainNode;
let worker: Worker;
let gateway: TestGateway;
const held: Exchange[] = [];

before(async () => {
  node = stack.use(await ChainNode.start());
  worker = stack.use(await startWorker({ otherwise: (exchange) => void held.push(exchange) }));
  gateway = await startTestGateway({
    pipeline,
    env: { NODE_URL: node.url, WORKER_URL: worker.url },
    prepare(folder) {
      const files = {
        "package.json": '{ "type": "module" }',
        "thread.js": step,
        "tls.crt": cert,
        "tls.key": privateKey,
      };
      for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
    },
  });
  stack.use(gateway);
});
after(() => stack.disposeAsync());

/** Sends a request, by default on a connection of its own. Resolves when the head of the answer has arrived. */
async function open(
  path: string,
  body?: object,
  { headers = {}, ...options }: Readonly<{ headers?: Record<string, string>; agent?: Agent }> = {},
): Promise<IncomingMessage & { readonly thread: number }> {
  const sent = request(gateway.url + path, {
    agent: false,
    method: body === undefined ? "GET" : "POST",
    headers: {
      authorization: `Bearer ${gateway.key}`,
      ...(body !== undefined && { "content-type": "application/json" }),
      ...headers,
    },
    ca: cert,
    ...options,
  });
  sent.end(body === undefined ? undefined : JSON.stringify(body));
  const [answer] = (await once(sent, "response")) as [IncomingMessage];
  return Object.assign(answer, { thread: Number(answer.headers["x-thread"]) });
}

async function textOf(answer: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of answer.setEncoding("utf8")) text += String(chunk);
  return text;
}

async function inAllThreads<T extends { readonly thread: number }>(
  openOne: () => Promise<T>,
): Promise<T[]> {
  const all: T[] = [];
  while (new Set(all.map(({ thread }) => thread)).size < threads) all.push(await openOne());
  return all;
}

const model = "Test/Model-1";
const chat = (more: object = {}): object => ({
  model,
  messages: [{ role: "user", content: "Hi" }],
  max_tokens: 4,
  ...more,
});
const tokens = [eventOf(chunkOf({ content: "Hello" })), "data: [DONE]\n\n"];

async function openStream(): Promise<Awaited<ReturnType<typeof open>>> {
  const count = held.length;
  const answer = open("/v1/chat/completions", chat({ stream: true }));
  await until(() => held.length > count);
  held.at(-1)?.begin();
  await held.at(-1)?.push(tokens[0] ?? "");
  return answer;
}

async function openHeads(): Promise<WsClient> {
  const url = `${gateway.url.replace("https", "wss")}/v1/ledger/rpc`;
  const client = await connectWs(url, { key: gateway.key, ca: cert });
  await client.ask(rpc("chain_subscribeNewHeads"));
  await client.next();
  return client;
}

describe("three threads", () => {
  for (const [protocol, openOne] of Object.entries({
    "HTTP/1.1": async () => open("/"),
    "HTTP/2": async () => {
      const session = connectHttp2(gateway.url, { ca: cert });
      const { status, headers } = await send(session, { ":path": "/" });
      session.destroy();
      return { statusCode: status, thread: Number(headers["x-thread"]) };
    },
  })) {
    it(`serve ${protocol} over TLS`, async () => {
      const answers = await inAllThreads<{ statusCode?: number; thread: number }>(openOne);
      assert.deepEqual(new Set(answers.map(({ statusCode }) => statusCode)), new Set([200]));
    });
  }

  it("send each head to the subscriptions of all threads, with one subscription at the node each", async () => {
    const clients: WsClient[] = [];
    while (node.open("chain_subscribeNewHeads") < threads) clients.push(await openHeads());
    node.advance(node.best + 1);
    const number = `"number":"0x${node.best.toString(16)}"`;
    for (const client of clients) assert.ok((await client.next()).includes(number));
    assert.equal(node.open("chain_subscribeNewHeads"), threads);
    for (const client of clients) await client[Symbol.asyncDispose]();
    await until(() => node.subscribers.size === 0);
  });

  it("run a request with an idempotency key once, whichever threads its repetitions reach", async () => {
    const headers = { "idempotency-key": "gateway_1" };
    const ask = (): ReturnType<typeof open> => open("/v1/chat/completions", chat(), { headers });
    const statuses: (number | undefined)[] = [];
    const asked = Array.from({ length: 12 }, async () => {
      const answer = await ask();
      statuses.push(answer.statusCode);
      return answer;
    });
    // The others are refused, because the first one still runs.
    await until(() => held.length === 1 && statuses.length === asked.length - 1);
    assert.deepEqual(new Set(statuses), new Set([409]));
    const [exchange] = held.splice(0);
    exchange?.begin(200, { "content-type": "application/json" });
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
    const message = { role: "assistant", content: "Hello" };
    const choices = [{ index: 0, message, finish_reason: "stop" }];
    await exchange?.push(
      JSON.stringify({ id: "x", object: "chat.completion", created: 1, model, choices, usage }),
    );
    exchange?.end();
    const first = (await Promise.all(asked)).find(({ statusCode }) => statusCode === 200);
    assert.ok(first);
    const text = await textOf(first);
    for (const again of await inAllThreads(ask)) {
      assert.equal(again.headers["idempotent-replayed"], "true");
      assert.equal(await textOf(again), text);
    }
    assert.deepEqual([worker.received.length, held.length], [1, 0]);
  });

  it("refuse a revoked key on connections of all threads", async () => {
    const { key, keyId } = await gateway.issue({});
    const headers = { authorization: `Bearer ${key}` };
    const agents: Agent[] = [];
    const ask = async (agent: Agent): ReturnType<typeof open> => {
      const answer = await open("/v1/chat/completions", {}, { headers, agent });
      await textOf(answer);
      return answer;
    };
    const all = await inAllThreads(() => {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      agents.push(agent);
      return ask(agent);
    });
    assert.deepEqual(new Set(all.map(({ statusCode }) => statusCode)), new Set([400]));
    await gateway.gateway
      .use("accounts")
      ?.admin.revokeKey(keyId, { actor: "test", at: Date.now() });
    for (const agent of agents) {
      await until(async () => (await ask(agent)).statusCode === 401);
      agent.destroy();
    }
  });

  it("drain the streams and WebSockets of all threads when the process stops", async () => {
    const earlier = [...readUsage(join(gateway.folder, "data"))].length;
    const streams = await inAllThreads(openStream);
    const clients: WsClient[] = [];
    while (node.open("chain_subscribeNewHeads") < threads) clients.push(await openHeads());
    const stopped = gateway.gateway.stop();
    assert.deepEqual(
      new Set(await Promise.all(clients.map(({ closed }) => closed))),
      new Set([1001]),
    );
    for (const exchange of held) {
      await exchange.push(tokens[1] ?? "");
      exchange.end();
    }
    for (const stream of streams) assert.match(await textOf(stream), /Hello[^]*\[DONE\]\n\n$/);
    await stopped;
    const charges = [...readUsage(join(gateway.folder, "data"))].slice(earlier);
    const ids = charges.filter(({ surface }) => surface === "chat").map((row) => row.requestId);
    assert.equal(ids.length, streams.length);
    assert.deepEqual(new Set(ids), new Set(streams.map(({ headers }) => headers["x-request-id"])));
  });
});
