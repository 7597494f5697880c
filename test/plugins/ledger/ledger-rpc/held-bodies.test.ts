/** Large calls that wait for a node make room for other callers, and what they held is released. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { request, type ClientRequest, type IncomingMessage } from "node:http";
import { test, type TestContext } from "node:test";
import { startTestGateway, type TestKey } from "../../../../plugins/contracts/testing.ts";
import { TextNode } from "../ledger-ws/text-node.ts";

const mebibyte = 1 << 20;
const held = "state_getKeysPaged";
const costMilliCu = 1000;

const pipeline = `
version: 1
store: { data: "\${DATA_DIR}" }
server: { port: "\${PORT}", drainDelaySeconds: 0, unfinishedBodyBytes: ${8 * mebibyte} }
admin: { port: "\${ADMIN_PORT}" }
upstreams:
  ledger: { urls: "\${NODE_URL}", connections: 2, connectMs: 600000, headersMs: 600000 }
routes:
  - path: /v1/ledger/rpc
    methods: [POST]
    run: [authenticate, meter]
    to: { ledger-rpc: { upstream: ledger } }
`;

/** Returns a call of this size in bytes. */
function callOf(method: string, bytes: number): string {
  const padded = (padding: string): string =>
    `{"jsonrpc":"2.0","id":1,"method":"${method}","params":["${padding}"]}`;
  return padded("x".repeat(bytes - padded("").length));
}

/** Calls of this size are shared. */
const small = 60 * 1024;
const single = callOf(held, mebibyte);
const items = Array.from({ length: 8 }, () => callOf(held, mebibyte / 8 - 2));
const batch = `[${items.join(",")}]`.padEnd(mebibyte);
const refused = callOf("unknown_method", 2 * mebibyte);

interface Asked {
  readonly sent: ClientRequest;
  /** The status of the answer. Undefined if the connection was cut. */
  readonly status: Promise<number | undefined>;
}

interface Bench {
  readonly node: TextNode;
  readonly dear: TestKey;
  readonly other: TestKey;
  readonly third: TestKey;
  ask(by: TestKey, body: string): Asked;
  /** Resolves when the gateway holds this number of bytes for requests that have arrived. */
  holds(bytes: number): Promise<void>;
  /** Resolves when the metrics have this line. */
  shows(line: string): Promise<void>;
  /** Resolves when the surface has charged this sum. */
  charges(milliCu: () => number): Promise<void>;
}

async function bench(t: TestContext): Promise<Bench> {
  const node = new TextNode();
  node.held.add(held);
  await node.start();
  t.after(() => node.stop());
  const gateway = await startTestGateway({ pipeline, env: { NODE_URL: node.url } });
  t.after(() => gateway[Symbol.asyncDispose]());
  const metrics = async (): Promise<string> => (await fetch(`${gateway.adminUrl}/metrics`)).text();
  const shows = async (line: string): Promise<void> => {
    while (!(await metrics()).includes(`${line}\n`));
  };
  const all: ClientRequest[] = [];
  t.after(() => all.forEach((sent) => sent.destroy()));
  return {
    node,
    dear: gateway,
    other: await gateway.issue({}),
    third: await gateway.issue({}),
    ask({ key }, body) {
      const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
      const options = { method: "POST", headers, agent: false };
      const sent = request(`${gateway.url}/v1/ledger/rpc`, options);
      all.push(sent);
      const status = once(sent, "response").then(
        ([response]) => (response as IncomingMessage).resume().statusCode,
        () => undefined,
      );
      sent.on("error", () => {});
      sent.end(body);
      return { sent, status };
    },
    shows,
    holds: (bytes) => shows(`sluice_held_bytes{kind="request"} ${bytes}`),
    async charges(milliCu) {
      const line = `sluice_charged_cu_milli_total{surface="ledger-rpc"}`;
      while (!(await metrics()).includes(`${line} ${milliCu()}\n`));
    },
  };
}

for (const [title, body] of Object.entries({ call: single, batch })) {
  test(`the newest ${title} of the dearest key is cut when large calls fill the bound`, async (t) => {
    const gateway = await bench(t);
    const waiting: Asked[] = [];
    const owners = [4, 3].flatMap((count, at) =>
      Array.from({ length: count }, () => (at === 0 ? gateway.dear : gateway.other)),
    );
    for (const owner of owners) {
      waiting.push(gateway.ask(owner, body));
      await gateway.holds(waiting.length * mebibyte);
    }
    assert.equal(await gateway.ask(gateway.third, refused).status, 200);
    assert.equal(await waiting[3]?.status, undefined);
    await gateway.holds(6 * mebibyte);
  });

  test(`a ${title} whose client has left holds nothing, and the node's work is charged`, async (t) => {
    const gateway = await bench(t);
    const { sent } = gateway.ask(gateway.dear, body);
    await gateway.holds(mebibyte);
    while (gateway.node.count(held) === 0) await new Promise(setImmediate);
    sent.destroy();
    await gateway.holds(0);
    gateway.node.release();
    await gateway.charges(() => gateway.node.count(held) * costMilliCu);
  });
}

test("a call that waits for a connection is not sent after its client has left", async (t) => {
  const gateway = await bench(t);
  void gateway.ask(gateway.dear, callOf(held, small));
  while (gateway.node.count(held) === 0) await new Promise(setImmediate);
  const { sent } = gateway.ask(gateway.dear, single);
  await gateway.holds(mebibyte);
  sent.destroy();
  await gateway.holds(0);
  gateway.node.release();
  assert.equal(await gateway.ask(gateway.dear, callOf(held, 2 * small)).status, 200);
  assert.equal(gateway.node.count(held), 2);
  await gateway.charges(() => 2 * costMilliCu);
});

test("a call that others wait for continues after one of its clients has left", async (t) => {
  const gateway = await bench(t);
  const { sent } = gateway.ask(gateway.dear, callOf(held, small));
  while (gateway.node.count(held) === 0) await new Promise(setImmediate);
  const { status } = gateway.ask(gateway.other, callOf(held, small));
  await gateway.shows(
    `sluice_ledger_calls_total{upstream="ledger",method="${held}",source="flight"} 1`,
  );
  sent.destroy();
  await new Promise((resolve) => sent.once("close", resolve));
  assert.equal(await gateway.ask(gateway.third, refused).status, 200);
  gateway.node.release();
  assert.equal(await status, 200);
  assert.equal(gateway.node.count(held), 1);
  await gateway.charges(() => 2 * costMilliCu);
});
