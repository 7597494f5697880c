/** Tests of the parser of what a node sends on the WebSocket of the subscriptions, which can be anything. */
import assert from "node:assert/strict";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { WebSocketServer, type WebSocket } from "ws";
import { FeedConnection } from "../../../../../plugins/ledger/ledger/feed/feed-connection.ts";
import { manualClock } from "../../../../../src/testing/clock.ts";
import { until } from "../../until.ts";

let server: WebSocketServer;
before(async () => {
  server = new WebSocketServer({ host: "127.0.0.1", port: 0 });
  await once(server, "listening");
});
after(async () => {
  const closed = once(server, "close");
  server.close();
  for (const socket of server.clients) socket.terminate();
  await closed;
});

async function connect() {
  const clock = manualClock();
  const lost: string[] = [];
  const accepted = once(server, "connection");
  const { port } = server.address() as AddressInfo;
  const connection = new FeedConnection(
    new URL(`ws://127.0.0.1:${port}`),
    clock,
    { connectMs: 1000, answerMs: 5000, messageBytes: 10_000 },
    (reason) => void lost.push(reason),
  );
  const [node] = (await accepted) as [WebSocket];
  assert.equal(await connection.opened, true);
  const calls: { readonly id: number; readonly method: string }[] = [];
  node.on("message", (data) => calls.push(JSON.parse((data as Buffer).toString())));
  const called = async (count: number): Promise<void> => until(() => calls.length === count);
  return { clock, lost, connection, node, calls, called };
}

/** Subscribes with this id of the node as JSON text. Returns what the subscription receives. */
async function subscribe(
  { connection, node, calls, called }: Awaited<ReturnType<typeof connect>>,
  id: string,
): Promise<string[]> {
  const received: string[] = [];
  const count = calls.length + 1;
  const answer = connection.subscribe(
    "x_subscribe",
    "[]",
    () => (text) => void received.push(text),
  );
  await called(count);
  node.send(`{"jsonrpc":"2.0","id":${calls.at(-1)?.id},"result":${id}}`);
  await answer;
  return received;
}

const notification = (id: string, result: string): string =>
  `{"jsonrpc":"2.0","method":"x","params":{"subscription":${id},"result":${result}}}`;

test("answers with unknown ids, repeated answers and unknown subscriptions are ignored", async () => {
  const ends = await connect();
  const { connection, node, calls, called, lost } = ends;
  const answer = connection.request("a", "[]");
  await called(1);
  const right = calls[0]!.id;
  for (const id of [right + 1, -right, `"${right}"`, "null", 1e30, right + 0.5]) {
    node.send(`{"jsonrpc":"2.0","id":${id},"result":"wrong"}`);
  }
  node.send(notification('"unknown"', "1"));
  node.send(`{"result": {"a": 1.0} ,"id":${right},"jsonrpc":"2.0"}`);
  assert.deepEqual(await answer, { kind: "result", text: '{"a": 1.0}' });
  node.send(`{"jsonrpc":"2.0","id":${right},"result":"again"}`);
  const received = await subscribe(ends, '"s"');
  node.send(notification('"t"', "1"));
  node.send(notification('"s"', "2"));
  await until(() => received.length === 1);
  assert.deepEqual([received, lost], [["2"], []]);
  connection.close();
});

const hostile: readonly (readonly [name: string, reason: RegExp, send: (to: WebSocket) => void])[] =
  [
    ["text that is not JSON", /^not JSON$/, (to) => to.send('{"id":1')],
    ["two messages in one", /^not JSON$/, (to) => to.send('{"id":9,"result":1}{}')],
    ["JSON with very many levels", /^not JSON$/, (to) => to.send("[".repeat(9_000))],
    ["JSON that is not JSON-RPC", /^not a notification$/, (to) => to.send("[]")],
    ["a batch", /^not a notification$/, (to) => to.send('[{"jsonrpc":"2.0","id":1,"result":1}]')],
    ["nothing", /^not JSON$/, (to) => to.send("")],
    [
      "bytes that are not UTF-8",
      /UTF8/,
      (to) => to.send(Buffer.from([34, 255, 34]), { binary: false }),
    ],
    [
      "a message above the limit",
      /^message too large$/,
      (to) => to.send(`"${"x".repeat(10_000)}"`),
    ],
    [
      "a flood",
      /^too many notifications$/,
      (to) => {
        for (let n = 0; n < 200; n++) to.send(notification('"unknown"', "1"));
      },
    ],
    ["the end of the connection", /^closed$/, (to) => to.close()],
  ];
for (const [name, reason, send] of hostile) {
  test(`${name} ends the connection, and its requests fail`, async () => {
    const { connection, node, called, lost } = await connect();
    const answer = connection.request("a", "[]");
    await called(1);
    send(node);
    assert.equal(await answer, undefined);
    assert.equal(lost.length, 1);
    assert.match(lost[0]!, reason);
    assert.equal(connection.isOverLimit, lost[0] === "message too large");
    assert.equal(await connection.request("b", "[]"), undefined);
  });
}

for (const id of ["{}", "null", '"a\\"b"', `"${"x".repeat(200)}"`, "-1", "1.5", '""']) {
  test(`a subscription with the id ${id.slice(0, 8)} ends the connection`, async () => {
    const ends = await connect();
    await subscribe(ends, id);
    assert.deepEqual(ends.lost, ["not the id of a subscription"]);
    assert.equal(ends.connection.subscriptions, 0);
  });
}

test("a request without an answer in time ends the connection", async () => {
  const { connection, called, clock, lost } = await connect();
  const answer = connection.request("a", "[]");
  await called(1);
  clock.advance(4_999);
  assert.deepEqual(lost, []);
  clock.advance(1);
  assert.equal(await answer, undefined);
  assert.deepEqual(lost, ["answer timeout"]);
});
