/** Tests of the codecs of calls to one node: HTTP, with and without batches, and WebSocket. Unusual HTTP: test/http/upstream. */
import assert from "node:assert/strict";
import { once } from "node:events";
import net, { type AddressInfo } from "node:net";
import { test } from "node:test";
import { getCACertificates, setDefaultCACertificates, type TLSSocket } from "node:tls";
import { BatchingClient } from "../../../../../plugins/ledger/ledger/pool/batching-client.ts";
import { HttpClient } from "../../../../../plugins/ledger/ledger/pool/http-client.ts";
import type { CallCarrier } from "../../../../../plugins/ledger/ledger/node-pool.ts";
import type { NodeClient } from "../../../../../plugins/ledger/ledger/pool/node-call.ts";
import { requestHead } from "../../../../../plugins/ledger/ledger/pool/request-head.ts";
import { WsClient } from "../../../../../plugins/ledger/ledger/pool/ws-client.ts";
import { manualClock, type ManualClock } from "../../../../../src/testing/clock.ts";
import { cert, key } from "../../../../certificate.ts";
import { silentLog } from "../../../../test-log.ts";
import { SingleCall } from "./single-call.ts";
import {
  echo,
  failure,
  response,
  result,
  startNode,
  type Received,
  type RpcCall,
  type Script,
} from "./scripted-node.ts";
import { startWsNode, type WsScript } from "./scripted-ws-node.ts";

type CallOptions = ConstructorParameters<typeof SingleCall>[0];

interface Client extends AsyncDisposable {
  readonly client: NodeClient;
  readonly clock: ManualClock;
  send(over?: CallOptions): SingleCall;
  /** Sends a call. Returns the text of the answer, or the kind of the failure. */
  ask(over?: CallOptions): Promise<string | undefined>;
}

function connectTo(url: string, { connections = 4, batching = false } = {}): Client {
  const clock = manualClock();
  const options = {
    url: new URL(url),
    connections,
    connectMs: 1_000,
    headersMs: 5_000,
    idleMs: 2_000,
    answerBytes: 10_000,
    clock,
    log: silentLog,
  };
  const http = (): NodeClient =>
    batching ? new BatchingClient(new HttpClient(options), clock) : new HttpClient(options);
  const client = url.startsWith("ws") ? new WsClient(options) : http();
  const send = (over?: CallOptions): SingleCall => {
    const call = new SingleCall(over);
    client.send(call);
    assert.equal(call.endings, 0, "never before send has returned");
    return call;
  };
  const ask = (over?: CallOptions): Promise<string | undefined> => outcomeOf(send(over));
  return { client, clock, send, ask, [Symbol.asyncDispose]: () => client.close() };
}

async function outcomeOf(call: SingleCall): Promise<string | undefined> {
  const ending = await call.ending;
  assert.equal(call.endings, 1);
  return ending.kind === "failed" ? call.cause : ending.text;
}

const outcomesOf = (calls: readonly SingleCall[]): Promise<(string | undefined)[]> =>
  Promise.all(calls.map(outcomeOf));

/** The result of a call without options, at a node that answers with the name of the method. */
const echoed = '"state_getStorage"';

const bytes =
  (text: (id: number) => string): Script =>
  (received) =>
    void received.socket.write(text(received.call().id), "latin1");

const nths = ({ received }: { readonly received: readonly Received[] }): number[] =>
  received.map(({ nth }) => nth);

test("HTTP: the gateway's own envelope, the params unchanged, and the url's credentials are sent", async () => {
  await using node = await startNode(echo);
  await using open = connectTo(`${node.url.replace("//", "//us%20er:p%40ss%@")}/path?with=query`);
  const params = '[ {"a":1.0, "é":"ü\\u00e9🦑"} ]';
  assert.equal(await open.ask({ method: "x_y", params }), '"x_y"');
  await open.ask({ params: "" });
  const [first, second] = node.received;
  assert.equal(first?.body, `{"jsonrpc":"2.0","id":1,"method":"x_y","params":${params}}`);
  assert.deepEqual(second?.call().params, []);
  const lines = first.head.split("\r\n");
  assert.equal(lines[0], "POST /path?with=query HTTP/1.1");
  for (const line of [
    `Host: 127.0.0.1:${node.port}`,
    "Content-Type: application/json",
    "Accept-Encoding: identity",
    `Authorization: Basic ${Buffer.from("us er:p%40ss%").toString("base64")}`,
  ]) {
    assert.ok(lines.includes(line), line);
  }
  assert.ok(requestHead(new URL("http://[::1]:9944/x")).includes("\r\nHost: [::1]:9944\r\n"));
});

test("HTTP: an error of the node is an answer, also without a code, with a 4xx status or a null id", async () => {
  const error = { message: "Method not found" };
  const answers: ((id: number) => string)[] = [
    (id) => response(failure(id, error)),
    () => response(failure(null, error)),
    (id) => response(failure(id, error), "HTTP/1.1 400 Bad Request"),
    () => response(failure(null, error), "HTTP/1.1 413 Payload Too Large"),
  ];
  await using node = await startNode((received) => {
    received.socket.write((answers[received.nth - 1] ?? assert.fail())(received.call().id));
  });
  await using open = connectTo(node.url);
  for (const _ of answers) {
    const { ending } = open.send();
    assert.deepEqual(await ending, { kind: "error", text: JSON.stringify(error) });
  }
});

const failing: readonly [name: string, text: (id: number) => string, cause: string][] = [
  ["HTTP 429 as text", () => response("Too many connections", "HTTP/1.1 429 Too Many"), "status"],
  ["HTTP 500 with an answer in it", (id) => response(result(id, "1"), "HTTP/1.1 500 No"), "status"],
  ["a result under a 4xx", (id) => response(result(id, "1"), "HTTP/1.1 403 Forbidden"), "garbage"],
  ["a redirect", () => response("", "HTTP/1.1 302 Found\r\nLocation: /x"), "garbage"],
  ["no content", () => "HTTP/1.1 204 No Content\r\n\r\n", "garbage"],
  ["another call's id", (id) => response(result(id + 1, "1")), "garbage"],
  ["a result whose id is null", () => response('{"id":null,"result":1}'), "garbage"],
  ["too much", () => "HTTP/1.1 200 OK\r\nContent-Length: 10001\r\n\r\n", "tooLarge"],
];

for (const [name, text, cause] of failing) {
  test(`HTTP: ${name} is not an answer, and the client continues`, async () => {
    await using node = await startNode(bytes(text));
    await using open = connectTo(node.url);
    assert.equal(await open.ask(), cause);
    node.script = echo;
    assert.equal(await open.ask(), echoed);
  });
}

test("HTTP: a read on a closed kept-alive connection is sent again on a new one", async () => {
  await using node = await startNode((received) => {
    if (received.nth === 1) echo(received);
    else received.socket.destroy();
  });
  await using open = connectTo(node.url);
  await open.ask();
  assert.equal(await open.ask(), echoed);
  assert.deepEqual(nths(node), [1, 2, 1]);
});

test("HTTP: a call that writes is sent on a new connection and exactly once", async () => {
  await using node = await startNode(echo);
  await using open = connectTo(node.url, { connections: 1 });
  await open.ask();
  // The idle connection is closed, because no other one is allowed.
  assert.equal(await open.ask({ retry: false }), echoed);
  assert.equal(node.connections, 2);
  node.script = ({ socket }) => socket.destroy();
  assert.equal(await open.ask({ method: "author_submitExtrinsic", retry: false }), "closed");
  assert.deepEqual(nths(node), [1, 1, 1]);
});

test("HTTP: a node that does not answer in time is a timeout, and unused connections are closed after a minute", async () => {
  await using node = await startNode(() => {});
  await using open = connectTo(node.url);
  const call = open.send();
  await node.seen(1);
  open.clock.advance(4_900);
  assert.equal(call.endings, 0);
  open.clock.advance(500);
  assert.equal(await outcomeOf(call), "answerTimeout");
  await node.deserted();
  node.script = echo;
  await open.ask();
  open.clock.advance(59_000);
  assert.equal(node.open.size, 1);
  open.clock.advance(3_000);
  await node.deserted();
});

test("HTTPS: a node with an untrusted certificate is refused, and the error code is reported", async () => {
  await using node = await startNode(echo, { tls: { key, cert } });
  await using open = connectTo(node.url);
  const call = open.send();
  assert.equal(await outcomeOf(call), "refused");
  assert.equal(call.errno, "DEPTH_ZERO_SELF_SIGNED_CERT");
  assert.equal(node.received.length, 0);
});

test("HTTPS: a trusted node is called by name or address, with SNI if it has a name", async () => {
  const before = getCACertificates("default");
  setDefaultCACertificates([...before, cert]);
  try {
    await using node = await startNode(echo, { tls: { key, cert } });
    for (const [url, servername] of [
      [node.url, false],
      [`https://localhost:${node.port}`, "localhost"],
    ] as const) {
      await using open = connectTo(url);
      assert.equal(await open.ask(), echoed);
      // startNode with tls passes TLS sockets to the script.
      assert.equal((node.received.at(-1)!.socket as TLSSocket).servername, servername);
    }
  } finally {
    setDefaultCACertificates(before);
  }
});

for (const scheme of ["https", "ws"]) {
  test(`${scheme}: a handshake that takes too long is a timeout`, async () => {
    const greeted = Promise.withResolvers<void>();
    const server = net.createServer((socket) => {
      socket.on("error", () => {});
      socket.once("data", () => greeted.resolve());
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    await using open = connectTo(`${scheme}://127.0.0.1:${port}`);
    const call = open.send();
    await greeted.promise;
    open.clock.advance(900);
    assert.equal(call.endings, 0);
    open.clock.advance(400);
    assert.equal(await outcomeOf(call), "connectTimeout");
    assert.deepEqual(await call.ending, { kind: "failed", reason: "timeout" });
    server.close();
  });
}

for (const [name, start, options] of [
  ["HTTP", () => startNode(() => {}), { connections: 1 }],
  ["batches", () => startNode(() => {}), { batching: true }],
  ["WebSocket", () => startWsNode(() => {}), {}],
] as const) {
  test(`${name}: close fails all calls, and the client does not connect again`, async () => {
    await using node = await start();
    const open = connectTo(node.url, options);
    const calls = [open.send({ cheap: true }), open.send({ cheap: true })];
    if (name !== "batches") await node.seen(1);
    await open.client.close();
    assert.deepEqual(await outcomesOf([...calls, open.send()]), Array(3).fill("closing"));
    await node.deserted();
    const received = node.received.length;
    open.clock.advance(100_000);
    assert.equal(node.received.length, received);
  });
}

const isBatch = ({ body }: Received): boolean => body.startsWith("[");
const resultOf = ({ id, method }: RpcCall): string => result(id, JSON.stringify(method));

/** Answers batches with these items, and single calls with their method. */
const batches =
  (items: (calls: readonly RpcCall[]) => readonly string[]): Script =>
  (received) => {
    if (isBatch(received))
      received.socket.write(response(`[${items(received.calls()).join(" , ")}]`));
    else echo(received);
  };
const inOrder = batches((calls) => calls.map(resultOf));

function sendCheap(open: Client, methods: readonly string[]): Promise<(string | undefined)[]> {
  return outcomesOf(methods.map((method) => open.send({ method, cheap: true })));
}

test("batches: cheap calls of one turn are sent together, at most 32, and all others separately", async () => {
  await using node = await startNode(inOrder);
  await using open = connectTo(node.url, { batching: true });
  const methods = Array.from({ length: 70 }, (_, i) => `m${i}`);
  const texts = methods.map((method) => JSON.stringify(method));
  assert.deepEqual(await sendCheap(open, methods), texts);
  const sizes = node.received.map((received) => received.calls().length);
  assert.deepEqual(sizes, [32, 32, 6]);
  assert.deepEqual(node.received[0]?.calls()[0]?.params, ["0x01"]);
  const others = [{ cheap: false }, { cheap: false }, { cheap: true, retry: false }];
  await outcomesOf([...others, { cheap: true, retry: false }].map((over) => open.send(over)));
  await sendCheap(open, ["alone"]);
  assert.equal(node.received.length, 3 + 5);
  assert.ok(!node.received.slice(3).some(isBatch));
});

test("batches: answers are matched by id; missing, repeated or unknown ones fail only the missing calls", async () => {
  await using node = await startNode(
    batches(([a, , c, d]) => {
      assert.ok(a !== undefined && c !== undefined && d !== undefined);
      const strange = [result(99_999, "1"), '{"id":null,"result":1}'];
      return [resultOf(c), resultOf(c), ...strange, failure(d.id, { code: 1 }), resultOf(a)];
    }),
  );
  await using open = connectTo(node.url, { batching: true });
  const outcomes = sendCheap(open, ["a", "b", "c", "d"]);
  assert.equal(open.client.inFlight, 4);
  assert.deepEqual(await outcomes, ['"a"', "garbage", '"c"', '{"code":1}']);
});

const refusals: readonly [name: string, text: string][] = [
  ["an error of the whole batch", response(failure(null, { code: -32005, message: "no batches" }))],
  ["an HTTP 400", response(failure(null, { code: -32700 }), "HTTP/1.1 400 Bad Request")],
  ["an HTTP 413", response("no", "HTTP/1.1 413 Payload Too Large")],
  ["something that is no batch answer", response("{}")],
  ["an answer above the bound", response("x".repeat(10_001))],
];

for (const [name, text] of refusals) {
  test(`batches: after ${name}, the calls are sent separately, and no batch is sent for a minute`, async () => {
    await using node = await startNode((received) => {
      if (isBatch(received)) received.socket.write(text);
      else echo(received);
    });
    await using open = connectTo(node.url, { batching: true });
    assert.deepEqual(await sendCheap(open, ["a", "b"]), ['"a"', '"b"']);
    assert.equal(node.received.length, 3);
    await sendCheap(open, ["c", "d"]);
    assert.equal(node.received.filter(isBatch).length, 1);
    open.clock.advance(60_000);
    node.script = inOrder;
    await sendCheap(open, ["e", "f"]);
    assert.equal(node.received.filter(isBatch).length, 2);
  });
}

test("batches: one is sent again if its kept-alive connection is closed, and else fails as a whole", async () => {
  await using node = await startNode(inOrder);
  await using open = connectTo(node.url, { batching: true });
  await sendCheap(open, ["a", "b"]);
  node.script = (received) => {
    if (received.nth > 1) received.socket.destroy();
    else inOrder(received);
  };
  assert.deepEqual(await sendCheap(open, ["c", "d"]), ['"c"', '"d"']);
  node.script = ({ socket }) => void socket.write(response("", "HTTP/1.1 503 No"));
  assert.deepEqual(await sendCheap(open, ["a", "b"]), ["status", "status"]);
  node.script = ({ socket }) => socket.destroy();
  assert.deepEqual(await sendCheap(open, ["a", "b"]), ["closed", "closed"]);
});

const echoWs: WsScript = (text, socket) => socket.send(resultOf(JSON.parse(text) as RpcCall));

test("WebSocket: calls share one connection; answers may come in any order, and unknown ones are ignored", async () => {
  const held: string[] = [];
  await using node = await startWsNode((text) => held.push(text));
  await using open = connectTo(`${node.url.replace("//", "//us%20er:p%40ss@")}/path?q=1`);
  const calls = ["a", "b", "c"].map((method) => open.send({ method, params: '["é🦑"]' }));
  await node.seen(3);
  assert.equal(open.client.inFlight, 3);
  assert.equal(node.received[0], '{"jsonrpc":"2.0","id":1,"method":"a","params":["é🦑"]}');
  const [socket] = node.open;
  assert.ok(socket !== undefined);
  socket.send('{"jsonrpc":"2.0","method":"chain_newHead","params":{"result":1}}');
  for (const id of ["1001", '"1"', "null"]) socket.send(`{"id":${id},"result":"forged"}`);
  for (const text of held.toReversed()) echoWs(text, socket);
  socket.send(result(1, '"late"'));
  assert.deepEqual(await outcomesOf(calls), ['"a"', '"b"', '"c"']);
  const [request] = node.upgrades;
  assert.deepEqual([node.upgrades.length, request?.url], [1, "/path?q=1"]);
  assert.equal(request?.headers["sec-websocket-extensions"], undefined);
  const expected = Buffer.from("us er:p@ss").toString("base64");
  assert.equal(request?.headers.authorization, `Basic ${expected}`);
});

test("WebSocket: a call can be aborted while the connection is not open", async () => {
  await using node = await startWsNode(echoWs);
  await using open = connectTo(node.url);
  let carrier: CallCarrier | undefined;
  const onCarrier = (next: CallCarrier | undefined): void => void (carrier = next);
  const aborted = open.send({ method: "a", onCarrier });
  carrier?.abort();
  assert.equal(await open.ask({ method: "b", onCarrier }), '"b"');
  assert.deepEqual([node.received.length, aborted.endings, carrier], [1, 0, undefined]);
});

test("WebSocket: a lost connection fails its calls, nothing is sent twice, and later calls use a new one", async () => {
  await using node = await startWsNode(echoWs);
  await using open = connectTo(node.url);
  await open.ask();
  node.script = (_text, socket) => socket.terminate();
  const lost = [open.send(), open.send({ retry: false })];
  assert.deepEqual(await outcomesOf(lost), ["closed", "closed"]);
  node.script = echoWs;
  assert.equal(await open.ask(), echoed);
  assert.deepEqual([node.upgrades.length, node.received.length], [2, 4]);
});

test("WebSocket: a message that is not JSON-RPC, or above the limit, ends the connection", async () => {
  await using node = await startWsNode(echoWs);
  await using open = connectTo(node.url);
  const large = result(1, JSON.stringify("x".repeat(10_000)));
  const pieces = [
    "<html>",
    '{"id":1',
    '{"jsonrpc":"2.0","id":1}',
    Buffer.from([0x22, 0xff, 0x22]),
    large,
  ];
  for (const piece of pieces) {
    node.script = (_text, socket) => socket.send(piece);
    const call = open.send();
    assert.equal(await outcomeOf(call), piece === large ? "closed" : "garbage");
    if (piece === large) assert.equal(call.errno, "WS_ERR_UNSUPPORTED_MESSAGE_LENGTH");
    node.script = echoWs;
    assert.equal(await open.ask(), echoed);
  }
  assert.equal(node.upgrades.length, 1 + pieces.length);
});

test("WebSocket: a call that is not answered in time fails alone, and calls above the limit are refused", async () => {
  await using node = await startWsNode((text, socket) => {
    if (!text.includes("slow")) echoWs(text, socket);
  });
  await using open = connectTo(node.url);
  const slow = Array.from({ length: 1_023 }, () => open.send({ method: "slow" }));
  await node.seen(1_023);
  open.clock.advance(6_900);
  assert.equal(await open.ask(), echoed);
  open.send({ method: "slow" });
  assert.equal(await open.ask(), "saturated");
  assert.ok(slow[0]?.endings === 0);
  open.clock.advance(500);
  assert.equal(await outcomeOf(slow[0]), "answerTimeout");
  assert.equal(node.upgrades.length, 1);
});

test("WebSocket: while a node is down or sends garbage first, calls fail at once, and the client waits before it connects", async () => {
  const gone = await startWsNode(echoWs);
  await gone.close();
  await using open = connectTo(gone.url);
  const call = open.send();
  assert.equal(await outcomeOf(call), "refused");
  assert.equal(call.errno, "ECONNREFUSED");
  assert.equal(await open.ask(), "refused");
  await using back = await startWsNode(echoWs, { port: gone.port });
  assert.equal(back.upgrades.length, 0);
  open.clock.advance(200);
  await back.joined(1);
  assert.equal(await open.ask(), echoed);
  await using rude = await startWsNode(echoWs, { greeting: "hello" });
  await using other = connectTo(rude.url);
  await rude.joined(2);
  assert.equal(await other.ask(), "garbage");
  assert.equal(await other.ask(), "refused");
  other.clock.advance(400);
  await rude.joined(3);
});

test("WebSocket: a connection that does not answer a ping is closed, and one that does is kept", async () => {
  await using deaf = await startWsNode(() => {}, { autoPong: false });
  await using open = connectTo(deaf.url);
  await deaf.joined(1);
  const call = open.send();
  await deaf.seen(1);
  // The first tick finds that the connection has just opened, and sends a ping. The second finds no message since.
  open.clock.advance(6_000);
  const first = outcomeOf(call);
  open.clock.advance(34_500);
  assert.equal(await first, "answerTimeout");
  await deaf.joined(2);
  await using node = await startWsNode(echoWs);
  await using kept = connectTo(node.url);
  await kept.ask();
  const [socket] = node.open;
  for (let i = 0; i < 5; i++) {
    const pinged = once(socket!, "ping");
    kept.clock.advance(20_000);
    await pinged;
    // Its pong is on the way. An answered call shows that the pong has been read.
    assert.equal(await kept.ask(), echoed);
  }
  assert.equal(node.upgrades.length, 1);
});
