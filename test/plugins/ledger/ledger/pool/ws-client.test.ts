import assert from "node:assert/strict";
import { createServer as createHttpServer } from "node:http";
import { createServer as createTcpServer } from "node:net";
import { test } from "node:test";
import { WsClient } from "../../../../../plugins/ledger/ledger/pool/ws-client.ts";
import { manualClock, type ManualClock } from "../../../../../src/testing/clock.ts";
import { SingleCall } from "./recorded-request.ts";
import { failure, result, type RpcCall } from "./scripted-node.ts";
import { startWsNode, type WsScript } from "./scripted-ws-node.ts";
import { silentLog } from "../../../../test-log.ts";

interface Client extends AsyncDisposable {
  readonly client: WsClient;
  readonly clock: ManualClock;
}

function connectTo(url: string): Client {
  const clock = manualClock();
  const client = new WsClient({
    url: new URL(url),
    connections: 1,
    connectMs: 1_000,
    headersMs: 5_000,
    idleMs: 2_000,
    answerBytes: 10_000,
    clock,
    log: silentLog,
  });
  return { client, clock, [Symbol.asyncDispose]: () => client.close() };
}

function sendTo(
  client: WsClient,
  over: ConstructorParameters<typeof SingleCall>[0] = {},
): SingleCall {
  const call = new SingleCall(over);
  client.send(call);
  assert.equal(call.request.endings, 0);
  return call;
}

async function outcomeOf(call: SingleCall): Promise<string | undefined> {
  const ending = await call.ending;
  return ending.kind === "failed" ? call.cause : ending.text;
}

const echo: WsScript = (text, socket) => {
  const { id, method } = JSON.parse(text) as RpcCall;
  socket.send(result(id, JSON.stringify(method)));
};

test("all calls share one connection, and answers may arrive in any order", async () => {
  const held: string[] = [];
  await using node = await startWsNode((text) => held.push(text));
  await using open = connectTo(node.url);
  const calls = ["a", "b", "c"].map((method) => sendTo(open.client, { method, params: '["é🦑"]' }));
  await node.seen(3);
  assert.equal(open.client.inFlight, 3);
  assert.equal(node.received[0], '{"jsonrpc":"2.0","id":1,"method":"a","params":["é🦑"]}');
  const [socket] = node.open;
  assert.ok(socket !== undefined);
  for (const text of held.toReversed()) echo(text, socket);
  assert.deepEqual(await Promise.all(calls.map(outcomeOf)), ['"a"', '"b"', '"c"']);
  assert.equal(node.upgrades.length, 1);
  assert.equal(open.client.inFlight, 0);
});

test("no compression is offered, and credentials of the url become Basic authentication", async () => {
  await using node = await startWsNode(echo);
  await using open = connectTo(`${node.url.replace("//", "//us%20er:p%40ss@")}/path?q=1`);
  await outcomeOf(sendTo(open.client));
  const [request] = node.upgrades;
  assert.equal(request?.url, "/path?q=1");
  assert.equal(request?.headers["sec-websocket-extensions"], undefined);
  const expected = Buffer.from("us er:p@ss").toString("base64");
  assert.equal(request?.headers.authorization, `Basic ${expected}`);
});

test("a node's error is an answer", async () => {
  await using node = await startWsNode((text, socket) => {
    socket.send(failure((JSON.parse(text) as RpcCall).id, { message: "no code" }));
  });
  await using open = connectTo(node.url);
  assert.deepEqual(await sendTo(open.client).ending, {
    kind: "error",
    text: '{"message":"no code"}',
  });
});

test("notifications, unknown ids, ids of other kinds and repeated answers are ignored", async () => {
  await using node = await startWsNode((text, socket) => {
    const { id } = JSON.parse(text) as RpcCall;
    socket.send('{"jsonrpc":"2.0","method":"chain_newHead","params":{"result":1}}');
    socket.send(result(id + 1_000, '"forged"'));
    socket.send(`{"id":"${id}","result":"forged"}`);
    socket.send('{"id":null,"result":"forged"}');
    socket.send(result(id, '"real"'));
    socket.send(result(id, '"late"'));
  });
  await using open = connectTo(node.url);
  const calls = [sendTo(open.client), sendTo(open.client)];
  assert.deepEqual(await Promise.all(calls.map(outcomeOf)), ['"real"', '"real"']);
  assert.deepEqual(
    calls.map((call) => call.request.endings),
    [1, 1],
  );
  assert.equal(node.upgrades.length, 1);
});

test("calls made before the connection is open are sent when it opens", async () => {
  await using node = await startWsNode(echo);
  await using open = connectTo(node.url);
  const calls = [sendTo(open.client, { method: "a" }), sendTo(open.client, { method: "b" })];
  assert.deepEqual(await Promise.all(calls.map(outcomeOf)), ['"a"', '"b"']);
});

test("a lost connection fails its calls, and later calls use a new connection at once", async () => {
  await using node = await startWsNode(echo);
  await using open = connectTo(node.url);
  await outcomeOf(sendTo(open.client));
  node.script = (_text, socket) => socket.terminate();
  const lost = [sendTo(open.client), sendTo(open.client, { retry: false })];
  assert.deepEqual(await Promise.all(lost.map(outcomeOf)), ["closed", "closed"]);
  assert.deepEqual(await lost[0]?.ending, { kind: "failed", reason: "unreachable" });
  node.script = echo;
  assert.equal(await outcomeOf(sendTo(open.client)), '"state_getStorage"');
  assert.equal(node.upgrades.length, 2);
  assert.equal(node.received.length, 4, "nothing is sent twice");
});

test("a message that is not JSON-RPC ends the connection and the calls on it", async () => {
  await using node = await startWsNode(echo);
  await using open = connectTo(node.url);
  const pieces = ["<html>", '{"id":1', '{"jsonrpc":"2.0","id":1}', Buffer.from([0x22, 0xff, 0x22])];
  for (const garbage of pieces) {
    node.script = (_text, socket) => socket.send(garbage);
    assert.equal(await outcomeOf(sendTo(open.client)), "garbage");
    node.script = echo;
    assert.equal(await outcomeOf(sendTo(open.client)), '"state_getStorage"');
  }
  assert.equal(node.upgrades.length, 1 + pieces.length);
});

test("the client waits before it reconnects to a node whose first message is garbage", async () => {
  await using node = await startWsNode(echo, { greeting: "hello" });
  await using open = connectTo(node.url);
  await node.joined(2);
  assert.equal(await outcomeOf(sendTo(open.client)), "garbage");
  assert.equal(await outcomeOf(sendTo(open.client)), "refused");
  open.clock.advance(400);
  await node.joined(3);
});

test("a message above the limit ends the connection", async () => {
  await using node = await startWsNode((text, socket) => {
    socket.send(result((JSON.parse(text) as RpcCall).id, JSON.stringify("x".repeat(10_000))));
  });
  await using open = connectTo(node.url);
  const call = sendTo(open.client);
  assert.equal(await outcomeOf(call), "closed");
  assert.equal(call.errno, "WS_ERR_UNSUPPORTED_MESSAGE_LENGTH");
});

test("a call that is not answered in time fails alone", async () => {
  await using node = await startWsNode((text, socket) => {
    if (!text.includes("slow")) echo(text, socket);
  });
  await using open = connectTo(node.url);
  const slow = sendTo(open.client, { method: "slow" });
  await node.seen(1);
  open.clock.advance(6_900);
  assert.equal(slow.request.endings, 0);
  const quick = sendTo(open.client);
  assert.equal(await outcomeOf(quick), '"state_getStorage"');
  open.clock.advance(500);
  assert.equal(await outcomeOf(slow), "answerTimeout");
  assert.equal(node.upgrades.length, 1);
});

test("while a node is down, calls fail at once, and the client reconnects with increasing delays", async () => {
  const gone = await startWsNode(echo);
  const { port } = gone;
  await gone.close();
  await using open = connectTo(gone.url);
  const call = sendTo(open.client);
  assert.equal(await outcomeOf(call), "refused");
  assert.equal(call.errno, "ECONNREFUSED");
  // While the client waits, it makes no attempt, and calls fail at once.
  assert.equal(await outcomeOf(sendTo(open.client)), "refused");
  await using back = await startWsNode(echo, { port });
  assert.equal(back.upgrades.length, 0);
  open.clock.advance(200);
  await back.joined(1);
  assert.equal(await outcomeOf(sendTo(open.client)), '"state_getStorage"');
});

test("a server that does not accept WebSockets is a failure", async () => {
  const http = createHttpServer((_request, reply) => reply.writeHead(404).end());
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  const address = http.address();
  assert.ok(address !== null && typeof address === "object");
  await using open = connectTo(`ws://127.0.0.1:${address.port}`);
  assert.equal(await outcomeOf(sendTo(open.client)), "refused");
  http.close();
});

test("a handshake that takes too long is a timeout", async () => {
  const greeted = Promise.withResolvers<void>();
  const listener = createTcpServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => greeted.resolve());
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const address = listener.address();
  assert.ok(address !== null && typeof address === "object");
  await using open = connectTo(`ws://127.0.0.1:${address.port}`);
  const call = sendTo(open.client);
  await greeted.promise;
  open.clock.advance(900);
  assert.equal(call.request.endings, 0);
  open.clock.advance(400);
  assert.equal(await outcomeOf(call), "connectTimeout");
  listener.close();
});

test("a connection that does not answer a ping is closed", async () => {
  await using node = await startWsNode(() => {}, { autoPong: false });
  await using open = connectTo(node.url);
  await node.joined(1);
  const call = sendTo(open.client);
  await node.seen(1);
  // The first tick finds that the connection has just opened, and sends a ping. The second finds no message since.
  open.clock.advance(6_000);
  const first = outcomeOf(call);
  open.clock.advance(34_500);
  assert.equal(await first, "answerTimeout");
  await node.joined(2);
});

test("a connection that answers pings is kept", async () => {
  await using node = await startWsNode(echo);
  await using open = connectTo(node.url);
  await outcomeOf(sendTo(open.client));
  const [socket] = node.open;
  assert.ok(socket !== undefined);
  for (let i = 0; i < 5; i++) {
    const pinged = new Promise((resolve) => socket.once("ping", resolve));
    open.clock.advance(20_000);
    await pinged;
    // Its pong is on the way. An answered call shows that the pong has been read.
    assert.equal(await outcomeOf(sendTo(open.client)), '"state_getStorage"');
  }
  assert.equal(node.upgrades.length, 1);
});

test("calls above the limit are refused", async () => {
  await using node = await startWsNode(() => {});
  await using open = connectTo(node.url);
  for (let i = 0; i < 1_024; i++) sendTo(open.client);
  assert.equal(await outcomeOf(sendTo(open.client)), "saturated");
});

test("close fails the calls in flight, and the client does not reconnect", async () => {
  await using node = await startWsNode(() => {});
  const { client, clock } = connectTo(node.url);
  const call = sendTo(client);
  await node.seen(1);
  await client.close();
  assert.equal(await outcomeOf(call), "closing");
  assert.equal(await outcomeOf(sendTo(client)), "closing");
  await node.deserted();
  clock.advance(100_000);
  assert.equal(node.upgrades.length, 1);
});

test("close works before the connection is open, and while waiting to reconnect", async () => {
  const node = await startWsNode(echo);
  const early = connectTo(node.url);
  const call = sendTo(early.client);
  await early.client.close();
  assert.equal(await outcomeOf(call), "closing");
  await node.close();
  const waiting = connectTo(node.url);
  assert.equal(await outcomeOf(sendTo(waiting.client)), "refused");
  await waiting.client.close();
  waiting.clock.advance(100_000);
  assert.equal(await outcomeOf(sendTo(waiting.client)), "closing");
});
