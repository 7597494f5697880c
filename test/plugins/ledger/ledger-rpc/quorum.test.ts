/** The option `quorum` of a method, end to end: clients over HTTP and WebSocket, and nodes that answer given bytes. */
import assert from "node:assert/strict";
import { after, before, describe, it, test } from "node:test";
import { startTestGateway, type TestGateway } from "../../../../plugins/contracts/testing.ts";
import { hash, request } from "../ledger/fixture.ts";
import { TextNode } from "../ledger-ws/text-node.ts";
import { connectWs } from "../ledger-ws/ws-client.ts";
import { untilNodesUp } from "../nodes-up.ts";

/** The upstream `pair` has two nodes, and `trio` has a third one. */
const pipeline = `
version: 1
store: { data: "\${DATA_DIR}" }
server: { port: "\${PORT}", drainDelaySeconds: 0 }
admin: { port: "\${ADMIN_PORT}" }
upstreams:
  pair:
    urls: "\${PAIR_URLS}"
    hedging: false
    methods: { state_call: { quorum: 2 } }
  trio:
    urls: "\${TRIO_URLS}"
    hedging: false
    methods: { state_call: { quorum: 2 } }
lists:
  ledger: [request-id, authenticate, rate-limit, { authorize: { require: "ledger:read" } }, meter]
routes:
  - { path: /pair, methods: [POST], run: [{ use: ledger }], to: { ledger-rpc: { upstream: pair } } }
  - { path: /pair, websocket: true, run: [{ use: ledger }], to: { ledger-ws: { upstream: pair } } }
  - { path: /trio, methods: [POST], run: [{ use: ledger }], to: { ledger-rpc: { upstream: trio } } }
  - { path: /trio, websocket: true, run: [{ use: ledger }], to: { ledger-ws: { upstream: trio } } }
`;

const first = new TextNode();
const second = new TextNode();
const third = new TextNode();
const nodes = [first, second, third];
const cuMilli = 5000;
let gateway: TestGateway;

before(async () => {
  for (const node of nodes) await node.start();
  const env = {
    PAIR_URLS: `${first.url},${second.url}`,
    TRIO_URLS: `${first.url},${second.url},${third.url}`,
  };
  gateway = await startTestGateway({ pipeline, env });
  await untilNodesUp(gateway, 5);
});
after(async () => {
  await gateway[Symbol.asyncDispose]();
  for (const node of nodes) await node.stop();
});

interface Asked {
  readonly text: string;
  readonly used: number;
}
type Ask = (path: string, body: string) => Promise<Asked>;

async function overHttp(path: string, body: string): Promise<Asked> {
  const response = await fetch(gateway.url + path, {
    method: "POST",
    headers: {
      authorization: `Bearer ${(await gateway.issue({})).key}`,
      "content-type": "application/json",
    },
    body,
  });
  const text = await response.text();
  return { text, used: Number(response.headers.get("x-used-cu-milli")) };
}

async function overWebSocket(path: string, body: string): Promise<Asked> {
  const { key, workspaceId } = await gateway.issue({});
  await using client = await connectWs(gateway.url + path, { key });
  const text = await client.ask(body);
  const { includedMilliCu } = await gateway.gateway.use("metering")!.workspaceUsage(workspaceId);
  return { text, used: includedMilliCu };
}

/** A read at a block, whose answer is cached. `name`: different for each test, because the tests share the caches. */
const readOf = (name: string): { readonly params: string; readonly body: string } => {
  const params = JSON.stringify([name, "0x", hash(1)]);
  return { params, body: request("state_call", params) };
};

function answerWith(params: string, results: readonly string[]): void {
  for (const [i, node] of nodes.entries()) node.results.set(`state_call ${params}`, results[i]!);
}

const timesAsked = (params: string): readonly number[] =>
  nodes.map(({ calls }) => calls.filter((call) => call === `state_call ${params}`).length);

const answerOf = (result: string): string => `{"jsonrpc":"2.0","id":1,"result":${result}}`;
const disagreement =
  '{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal Error","data":{"errorCode":"NODES_DISAGREE"}}}';

const surfaces: readonly (readonly [string, Ask])[] = [
  ["HTTP", overHttp],
  ["WebSocket", overWebSocket],
];
for (const [surface, ask] of surfaces) {
  describe(`a method with quorum: 2 over ${surface}`, () => {
    it("is answered with the bytes of two nodes that agree, for the price of one call", async () => {
      const { params, body } = readOf(`agree ${surface}`);
      answerWith(params, ['"0x01"', '"0x01"', '"0x02"']);
      assert.deepEqual(await ask("/pair", body), { text: answerOf('"0x01"'), used: cuMilli });
      assert.deepEqual(timesAsked(params), [1, 1, 0]);
      assert.deepEqual(await ask("/pair", body), { text: answerOf('"0x01"'), used: cuMilli });
      assert.deepEqual(timesAsked(params), [1, 1, 0], "answered from the cache");
    });

    it("fails if two nodes disagree twice, and is neither charged nor cached", async () => {
      const { params, body } = readOf(`disagree ${surface}`);
      answerWith(params, ['"0x01"', '"0x02"', '"0x01"']);
      assert.deepEqual(await ask("/pair", body), { text: disagreement, used: 0 });
      assert.deepEqual(timesAsked(params), [2, 2, 0]);
      answerWith(params, ['"0x02"', '"0x02"', '"0x01"']);
      assert.deepEqual(await ask("/pair", body), { text: answerOf('"0x02"'), used: cuMilli });
      assert.deepEqual(timesAsked(params), [3, 3, 0]);
    });

    it("is answered with what the majority of three nodes says, whichever of them lies", async () => {
      for (const [liar, node] of nodes.entries()) {
        const { params, body } = readOf(`liar ${liar} ${surface}`);
        answerWith(params, ['"0x01"', '"0x01"', '"0x01"']);
        node.results.set(`state_call ${params}`, '"0xff"');
        assert.deepEqual(await ask("/trio", body), { text: answerOf('"0x01"'), used: cuMilli });
        assert(timesAsked(params).every((times) => times <= 1));
      }
    });
  });
}

test("nodes are not asked again after the client has left, and their disagreement is not charged", async () => {
  const pair = [first, second];
  for (const [i, node] of pair.entries()) {
    node.held.add("state_call");
    node.results.set("state_call", `"0x0${i}"`);
    // The answer to a call without params.
    node.results.set("state_call []", '"0xff"');
  }
  const held = async (bytes: number): Promise<void> => {
    const line = `sluice_held_bytes{kind="request"} ${bytes}\n`;
    while (!(await (await fetch(`${gateway.adminUrl}/metrics`)).text()).includes(line));
  };
  const leaving = new AbortController();
  // Longer than what is served without being counted.
  const body = request("state_call", JSON.stringify(["left", `0x${"00".repeat(100_000)}`]));
  const { key, workspaceId } = await gateway.issue({});
  const asked = fetch(`${gateway.url}/pair`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body,
    signal: leaving.signal,
  }).catch(() => "left");
  await held(body.length);
  while (pair.some(({ calls }) => !calls.some((call) => call.includes('"left"'))))
    await new Promise(setImmediate);
  leaving.abort();
  assert.equal(await asked, "left");
  await held(0);
  for (const node of pair) node.release();
  while (gateway.gateway.listener.running > 0) await new Promise(setImmediate);
  const usage = await gateway.gateway.use("metering")!.workspaceUsage(workspaceId);
  assert.equal(usage.includedMilliCu, 0);
  for (const { calls } of pair) assert.ok(!calls.includes("state_call []"));
});
