import assert from "node:assert/strict";
import { once } from "node:events";
import net from "node:net";
import { test } from "node:test";
import { HttpClient } from "../../../../../plugins/ledger/ledger/pool/http-client.ts";
import { requestHead } from "../../../../../plugins/ledger/ledger/pool/request-head.ts";
import { addressOf } from "../../../../../src/http/upstream/open-socket.ts";
import { manualClock, type ManualClock } from "../../../../../src/testing/clock.ts";
import { SingleCall } from "./recorded-request.ts";
import {
  echo,
  failure,
  response,
  result,
  startNode,
  type Received,
  type ScriptedNode,
} from "./scripted-node.ts";
import { silentLog } from "../../../../test-log.ts";

interface Client extends AsyncDisposable {
  readonly client: HttpClient;
  readonly clock: ManualClock;
}

function connectTo(
  url: string,
  over: { readonly connections?: number; readonly answerBytes?: number } = {},
): Client {
  const clock = manualClock();
  const client = new HttpClient({
    url: new URL(url),
    connections: 4,
    connectMs: 1_000,
    headersMs: 5_000,
    idleMs: 2_000,
    answerBytes: 10_000,
    clock,
    log: silentLog,
    ...over,
  });
  return { client, clock, [Symbol.asyncDispose]: () => client.close() };
}

function sendTo(
  client: HttpClient,
  over: ConstructorParameters<typeof SingleCall>[0] = {},
): SingleCall {
  const call = new SingleCall(over);
  client.send(call);
  return call;
}

/** Returns the text of a call's answer. Fails the test if there is none. */
async function textOf(call: SingleCall): Promise<string> {
  const ending = await call.ending;
  if (ending.kind === "failed") assert.fail(`failed: ${call.cause}`);
  return ending.text;
}

async function causeOf(call: SingleCall): Promise<string | undefined> {
  const ending = await call.ending;
  assert.equal(ending.kind, "failed");
  return call.cause;
}

/** Answers with exactly these bytes. */
const bytes = (text: (id: number) => string) => (received: Received) => {
  received.socket.write(text(received.call().id), "latin1");
};

/** Waits long enough for the other side, which runs in this process, to read what was written on loopback. */
async function turns(): Promise<void> {
  for (let i = 0; i < 4; i++) await new Promise((resolve) => setImmediate(resolve));
}

test("sends the gateway's own envelope and the params unchanged, and accepts no content coding", async () => {
  await using node = await startNode(echo);
  await using open = connectTo(`${node.url}/some/path?with=query`);
  const params = '[ {"a":1.0, "é":"ü\\u00e9🦑"} ]';
  assert.equal(await textOf(sendTo(open.client, { method: "x_y", params })), '"x_y"');
  const [first] = node.received;
  assert.ok(first !== undefined);
  assert.equal(first.body, `{"jsonrpc":"2.0","id":1,"method":"x_y","params":${params}}`);
  const lines = first.head.split("\r\n");
  assert.equal(lines[0], "POST /some/path?with=query HTTP/1.1");
  assert.ok(lines.includes(`Host: 127.0.0.1:${node.port}`));
  assert.ok(lines.includes("Content-Type: application/json"));
  assert.ok(lines.includes("Accept-Encoding: identity"));
});

test("absent params become an empty array", async () => {
  await using node = await startNode(echo);
  await using open = connectTo(node.url);
  await textOf(sendTo(open.client, { params: "" }));
  assert.deepEqual(node.received[0]?.call().params, []);
});

test("params of any size arrive whole, ASCII or not", async () => {
  await using node = await startNode(echo);
  await using open = connectTo(node.url);
  for (const text of [
    "x".repeat(7_900),
    "x".repeat(2_000_000),
    "é".repeat(5_000),
    "🦑".repeat(200_000),
  ]) {
    await textOf(sendTo(open.client, { params: JSON.stringify([text]) }));
    assert.deepEqual(node.received.at(-1)?.call().params, [text]);
  }
});

test("credentials of the url become Basic authentication and are sent nowhere else", async () => {
  await using node = await startNode(echo);
  await using open = connectTo(node.url.replace("//", "//us%20er:p%40ss%@"));
  await textOf(sendTo(open.client));
  const head = node.received[0]?.head ?? "";
  assert.match(head, /^POST \/ HTTP/);
  const expected = Buffer.from("us er:p%40ss%").toString("base64");
  assert.ok(head.split("\r\n").includes(`Authorization: Basic ${expected}`));
});

test("an IPv6 address has brackets in Host but not for connecting", () => {
  const url = new URL("http://[::1]:9944/x");
  assert.deepEqual(addressOf(url), { host: "::1", port: 9944, isTls: false });
  assert.ok(requestHead(url).includes("\r\nHost: [::1]:9944\r\n"));
  assert.equal(addressOf(new URL("http://node/")).port, 80);
  assert.equal(addressOf(new URL("https://node/")).port, 443);
});

test("a host name works", async () => {
  await using node = await startNode(echo);
  await using open = connectTo(`http://localhost:${node.port}`);
  assert.equal(await textOf(sendTo(open.client)), '"state_getStorage"');
});

test("a call made in the callback of an answer uses the connection of that answer", async () => {
  await using node = await startNode(echo);
  await using open = connectTo(node.url);
  const second = Promise.withResolvers<void>();
  class Chained extends SingleCall {
    override onAnswer(): void {
      const next = sendTo(open.client);
      next.ending.then(() => second.resolve(), second.reject);
    }
  }
  open.client.send(new Chained());
  await second.promise;
  assert.equal(node.connections, 1);
});

test("a large answer is read, and small ones after it", async () => {
  const large = JSON.stringify("x".repeat(3_000_000));
  await using node = await startNode((received) => {
    const { id, method } = received.call();
    received.socket.write(response(result(id, method === "large" ? large : "1")));
  });
  await using open = connectTo(node.url, { answerBytes: 4_000_000 });
  assert.equal(await textOf(sendTo(open.client, { method: "large" })), large);
  assert.equal(await textOf(sendTo(open.client)), "1");
  assert.equal(await textOf(sendTo(open.client, { method: "large" })), large);
  assert.equal(node.connections, 1);
});

test("interim responses are skipped", async () => {
  await using node = await startNode(
    bytes(
      (id) =>
        `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n${response(result(id, "7"))}`,
    ),
  );
  await using open = connectTo(node.url);
  assert.equal(await textOf(sendTo(open.client)), "7");
});

test("Connection: close is honoured", async () => {
  await using node = await startNode(
    bytes((id) => response(result(id, "7"), "HTTP/1.1 200 OK\r\nConnection: close")),
  );
  await using open = connectTo(node.url);
  await textOf(sendTo(open.client));
  await node.deserted();
  await textOf(sendTo(open.client));
  assert.equal(node.connections, 2);
});

test("an error of the node is an answer, with or without a code, also with a 4xx status and a null id", async () => {
  const error = { message: "Method not found" };
  const answers: ((id: number) => string)[] = [
    (id) => response(failure(id, error)),
    (id) => response(failure(id, { code: -32601, ...error })),
    () => response(failure(null, error)),
    (id) => response(failure(id, error), "HTTP/1.1 400 Bad Request"),
    () => response(failure(null, error), "HTTP/1.1 413 Payload Too Large"),
  ];
  await using node = await startNode((received) => {
    received.socket.write((answers[received.nth - 1] ?? assert.fail())(received.call().id));
  });
  await using open = connectTo(node.url);
  for (const [i] of answers.entries()) {
    const ending = await sendTo(open.client).ending;
    const want = i === 1 ? { code: -32601, ...error } : error;
    assert.deepEqual(ending, { kind: "error", text: JSON.stringify(want) });
  }
});

const html = "<html><body>Bad Gateway</body></html>";
const failing: readonly [name: string, text: (id: number) => string, cause: string][] = [
  ["HTTP 429 as text", () => response("Too many connections", "HTTP/1.1 429 Too Many"), "status"],
  ["HTTP 503 as text", () => response("no", "HTTP/1.1 503 Service Unavailable"), "status"],
  ["HTTP 500 with an answer in it", (id) => response(result(id, "1"), "HTTP/1.1 500 No"), "status"],
  ["an HTML page", () => response(html), "garbage"],
  ["HTTP 404", () => response("not here", "HTTP/1.1 404 Not Found"), "garbage"],
  ["a result under a 4xx", (id) => response(result(id, "1"), "HTTP/1.1 403 Forbidden"), "garbage"],
  [
    "a redirect",
    () => "HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n",
    "garbage",
  ],
  ["an empty body", () => response(""), "garbage"],
  ["no content", () => "HTTP/1.1 204 No Content\r\n\r\n", "garbage"],
  ["half of a JSON text", (id) => response(result(id, "1").slice(0, -1)), "garbage"],
  ["an answer and more JSON", (id) => response(`${result(id, "1")}{}`), "garbage"],
  ["another call's id", (id) => response(result(id + 1, "1")), "garbage"],
  ["a result without an id", () => response('{"jsonrpc":"2.0","result":1}'), "garbage"],
  ["a result whose id is null", () => response('{"id":null,"result":1}'), "garbage"],
  ["its id as a string", (id) => response(`{"id":"${id}","result":1}`), "garbage"],
  ["neither result nor error", (id) => response(`{"id":${id}}`), "garbage"],
  ["a batch", (id) => response(`[${result(id, "1")}]`), "garbage"],
  [
    "an answer above the bound",
    () => "HTTP/1.1 200 OK\r\nContent-Length: 10001\r\n\r\n",
    "tooLarge",
  ],
];
for (const [name, text, cause] of failing) {
  test(`a node that answers with ${name} counts as not answering, and the client continues`, async () => {
    await using node = await startNode(bytes(text));
    await using open = connectTo(node.url);
    const call = sendTo(open.client);
    assert.equal(await causeOf(call), cause);
    node.script = echo;
    assert.equal(await textOf(sendTo(open.client)), '"state_getStorage"');
    assert.equal(call.request.endings, 1);
  });
}

test("a node that is down is unreachable, and the error of the connection is reported", async () => {
  const node = await startNode(echo);
  await node.close();
  await using open = connectTo(node.url);
  const call = sendTo(open.client);
  assert.equal(await causeOf(call), "refused");
  assert.deepEqual(await call.ending, { kind: "failed", reason: "unreachable" });
  assert.equal(call.errno, "ECONNREFUSED");
});

test("if a node closes the connection in the middle of an answer, the call fails, even for a read", async () => {
  const parts = [
    "HTTP/1.1 2",
    "HTTP/1.1 200 OK\r\nContent-Le",
    `HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"id":`,
  ];
  await using node = await startNode(
    ({ socket }) => void socket.end(parts[node.received.length - 1] ?? ""),
  );
  await using open = connectTo(node.url);
  for (const [i] of parts.entries()) {
    const call = sendTo(open.client);
    assert.equal(await causeOf(call), "closed");
    assert.equal(node.received.length, i + 1);
  }
});

/** Answers the first request of a connection, and closes the connection on the second. */
const closesOnSecond = (received: Received): void => {
  if (received.nth === 1) echo(received);
  else received.socket.destroy();
};

test("a read on a closed kept-alive connection is sent again on a new one", async () => {
  await using node = await startNode(closesOnSecond);
  await using open = connectTo(node.url);
  await textOf(sendTo(open.client));
  const read = sendTo(open.client);
  assert.equal(await textOf(read), '"state_getStorage"');
  assert.deepEqual(
    node.received.map(({ nth }) => nth),
    [1, 2, 1],
  );
});

test("a call that writes is sent on a new connection and exactly once", async () => {
  await using node = await startNode(echo);
  await using open = connectTo(node.url);
  await textOf(sendTo(open.client));
  node.script = ({ socket }) => socket.destroy();
  const write = sendTo(open.client, { method: "author_submitExtrinsic", retry: false });
  assert.equal(await causeOf(write), "closed");
  assert.deepEqual(
    node.received.map(({ nth }) => nth),
    [1, 1],
  );
});

test("a call that writes closes an idle connection if no new one is allowed", async () => {
  await using node = await startNode(echo);
  await using open = connectTo(node.url, { connections: 1 });
  await textOf(sendTo(open.client));
  await textOf(sendTo(open.client, { retry: false }));
  assert.equal(node.connections, 2);
  assert.equal(node.received.at(-1)?.nth, 1);
});

test("a connection that the node closed while it was idle is not used", async () => {
  await using node = await startNode(echo);
  await using open = connectTo(node.url);
  await textOf(sendTo(open.client));
  for (const socket of node.open) socket.end();
  await node.deserted();
  await textOf(sendTo(open.client));
  assert.equal(node.connections, 2);
});

test("an answer that comes before the whole request is sent ends the connection", async () => {
  const early = response(failure(null, { code: -32007 }), "HTTP/1.1 413 Payload Too Large");
  const connections: net.Socket[] = [];
  const server = net.createServer((socket) => {
    connections.push(socket);
    socket.on("error", () => {});
    socket.once("data", () => socket.pause().write(early));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  assert.ok(address !== null && typeof address === "object");
  await using open = connectTo(`http://127.0.0.1:${address.port}`);
  const params = JSON.stringify(["x".repeat(8_000_000)]);
  const ending = await sendTo(open.client, { params }).ending;
  assert.deepEqual(ending, { kind: "error", text: '{"code":-32007}' });
  const [socket] = connections;
  assert.ok(socket !== undefined);
  const closed = once(socket, "close");
  socket.resume();
  await closed;
  server.close();
});

test("a node that does not answer the TLS handshake is a timeout", async () => {
  const greeted = Promise.withResolvers<void>();
  const server = net.createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => greeted.resolve());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  assert.ok(address !== null && typeof address === "object");
  await using open = connectTo(`https://127.0.0.1:${address.port}`);
  const call = sendTo(open.client);
  await greeted.promise;
  open.clock.advance(900);
  assert.equal(call.request.endings, 0);
  open.clock.advance(400);
  assert.equal(await causeOf(call), "connectTimeout");
  assert.deepEqual(await call.ending, { kind: "failed", reason: "timeout" });
  server.close();
});

test("a node that does not answer in time is a timeout, and its connection is closed", async () => {
  await using node = await startNode(() => {});
  await using open = connectTo(node.url);
  const call = sendTo(open.client);
  await node.seen(1);
  open.clock.advance(4_900);
  assert.equal(call.request.endings, 0);
  open.clock.advance(500);
  assert.equal(await causeOf(call), "answerTimeout");
  await node.deserted();
});

test("an answer may pause for less than the idle limit, again and again, but not longer", async () => {
  await using node = await startNode(() => {});
  await using open = connectTo(node.url);
  const call = sendTo(open.client);
  await node.seen(1);
  const [received] = node.received;
  assert.ok(received !== undefined);
  const text = response(result(1, '"hello"'));
  for (const char of text.slice(0, 30)) {
    open.clock.advance(1_500);
    received.socket.write(char);
    await turns();
    assert.equal(call.request.endings, 0);
  }
  open.clock.advance(2_600);
  assert.equal(await causeOf(call), "idleTimeout");
});

test("an unused connection is closed after a minute", async () => {
  await using node = await startNode(echo);
  await using open = connectTo(node.url);
  await textOf(sendTo(open.client));
  open.clock.advance(59_000);
  assert.equal(node.open.size, 1);
  open.clock.advance(3_000);
  await node.deserted();
});

test("close fails waiting calls and calls in flight, and closes every connection", async () => {
  await using node = await startNode(() => {});
  const { client, clock } = connectTo(node.url, { connections: 1 });
  const calls = [sendTo(client), sendTo(client)];
  await node.seen(1);
  await client.close();
  for (const call of calls) assert.equal(await causeOf(call), "closing");
  const late = sendTo(client);
  assert.equal(late.request.endings, 0);
  assert.equal(await causeOf(late), "closing");
  await node.deserted();
  clock.advance(100_000);
  assert.deepEqual(
    calls.map((call) => call.request.endings),
    [1, 1],
  );
});

test("a call ends exactly once, and never before send has returned", async () => {
  const scripts = [echo, closesOnSecond, ({ socket }: Received) => socket.destroy()];
  for (const script of scripts) {
    await using node: ScriptedNode = await startNode(script);
    await using open = connectTo(node.url, { connections: 2 });
    const calls: SingleCall[] = [];
    for (let i = 0; i < 50; i++) {
      const call = sendTo(open.client, { retry: i % 3 > 0 });
      assert.equal(call.request.endings, 0);
      calls.push(call);
    }
    await Promise.all(calls.map((call) => call.ending));
    for (const call of calls) assert.equal(call.request.endings, 1);
    assert.equal(open.client.inFlight, 0);
  }
});
