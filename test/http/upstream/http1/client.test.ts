/** Tests of the HTTP/1.1 client with a backend whose answers are written byte for byte: its connections and its queue. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { Http1Connection } from "../../../../src/http/upstream/http1/connection.ts";
import { open, TestExchange, whole } from "./scripted-backend.ts";

for (const callback of ["onHead", "onData", "onRead"] as const) {
  test(`an exception in ${callback} is reported and fails only its exchange`, async (t) => {
    const { client, bugs, request, connections, answer } = await open(t);
    const other = new TestExchange();
    const exchange = new TestExchange(callback);
    client.send(other);
    const first = await request();
    assert.equal(await answer(exchange), "internal");
    assert.deepEqual(bugs.map(String), [`Error: a bug in ${callback}`]);
    first.write(whole);
    assert.equal(await other.ended, "done");
    assert.equal(connections(), 2);
  });
}

test("an exception in onEnd is reported, and the connection carries the next exchange", async (t) => {
  const { bugs, connections, answer } = await open(t);
  const exchange = new TestExchange("onEnd");
  assert.equal(await answer(exchange), "done");
  const next = new TestExchange();
  assert.equal(await answer(next), "done");
  assert.deepEqual(bugs.map(String), ["Error: a bug in onEnd"]);
  assert.equal(connections(), 1);
});

test("an exception in onError is reported, and close still closes every connection", async (t) => {
  const { client, bugs, request } = await open(t);
  const exchanges = [new TestExchange("onError"), new TestExchange("onError")];
  for (const exchange of exchanges) client.send(exchange);
  const sockets = [await request(), await request()];
  const closed = sockets.map((socket) => once(socket, "close"));
  await client.close();
  await Promise.all(closed);
  assert.deepEqual(await Promise.all(exchanges.map(({ ended }) => ended)), ["closing", "closing"]);
  assert.equal(bugs.length, 2);
});

test("while an exchange is paused, its time limits do not run", async (t) => {
  const { client, clock, request } = await open(t);
  const exchange = new TestExchange();
  client.send(exchange);
  const socket = await request();
  exchange.carrier?.pause();
  clock.advance(100_000);
  exchange.carrier?.resume();
  clock.advance(1_000);
  socket.write(whole);
  assert.equal(await exchange.ended, "done");
});

test("drain closes idle connections, lets exchanges end, and then resolves", async (t) => {
  const { client, request } = await open(t);
  const [kept, running] = [new TestExchange(), new TestExchange()];
  client.send(kept);
  const first = await request();
  client.send(running);
  const second = await request();
  first.write(whole);
  await kept.ended;
  let hasDrained = false;
  const idleClosed = once(first, "close");
  const drained = client.drain().then(() => (hasDrained = true));
  await idleClosed;
  assert.equal(hasDrained, false);
  second.write(whole);
  assert.equal(await running.ended, "done");
  await drained;
  const late = new TestExchange();
  client.send(late);
  assert.deepEqual(late.calls, []);
  assert.equal(await late.ended, "closing");
});

test("exchanges that wait get the connection in order of arrival", async (t) => {
  const { client, request, connections } = await open(t, { connections: 1 });
  const exchanges = [new TestExchange(), new TestExchange(), new TestExchange()];
  for (const exchange of exchanges) client.send(exchange);
  assert.deepEqual([client.inFlight, client.waiting], [3, 2]);
  for (const [at, exchange] of exchanges.entries()) {
    (await request()).write(whole);
    assert.equal(await exchange.ended, "done");
    assert.deepEqual(exchanges[at + 1]?.calls ?? [], []);
  }
  assert.equal(connections(), 1);
});

const isCarried = (exchange: TestExchange | undefined): boolean =>
  exchange?.carrier instanceof Http1Connection;

// Finding S13.
test("a caller holds at most as many connections as are free, and callers that wait take turns", async (t) => {
  const { client, request } = await open(t, { connections: 8 });
  const send = (caller: string): TestExchange => {
    const exchange = Object.assign(new TestExchange(), { caller });
    client.send(exchange);
    return exchange;
  };
  const greedy = Array.from({ length: 20 }, () => send("greedy"));
  const sockets = [await request(), await request(), await request(), await request()];
  assert.equal(client.waiting, 16);
  const other = [send("other"), send("other"), send("other")];
  const others = [await request(), await request()];
  assert.equal(client.waiting, 17);
  const [last, late] = [send("last"), send("late")];
  for (const socket of [await request(), await request()]) others.push(socket);
  // All connections are in use. The next ones go to the callers that wait, in turn.
  const newcomer = send("newcomer");
  sockets[0]?.write(whole);
  assert.equal(await greedy[0]?.ended, "done");
  await request();
  assert.deepEqual([greedy[4], other[2], newcomer].map(isCarried), [false, false, true]);
  for (const socket of others.slice(0, 2)) socket.write(whole);
  for (const exchange of other.slice(0, 2)) assert.equal(await exchange.ended, "done");
  await request();
  assert.equal(isCarried(other[2]), true);
  assert.deepEqual([isCarried(last), isCarried(late)], [true, true]);
});

test("the exchanges of one caller fill at most half of the queue", async (t) => {
  const { client } = await open(t, { connections: 1 });
  const send = (caller: string): TestExchange => {
    const exchange = Object.assign(new TestExchange(), { caller });
    client.send(exchange);
    return exchange;
  };
  const refused = Array.from({ length: 520 }, () => send("a")).at(-1);
  assert.equal(await refused?.ended, "saturated");
  assert.equal(client.waiting, 512);
  send("b");
  assert.equal(client.waiting, 513);
});

test("no more than 1,024 exchanges wait for a connection", async (t) => {
  const { client, request } = await open(t, { connections: 1 });
  client.send(new TestExchange());
  await request();
  for (let i = 0; i < 1_024; i++) client.send(new TestExchange());
  const excess = new TestExchange();
  client.send(excess);
  assert.deepEqual(excess.calls, []);
  assert.equal(await excess.ended, "saturated");
  assert.equal(client.waiting, 1_024);
});

test("an exchange is not sent again after an interim response", async (t) => {
  const { client, request, connections, answer } = await open(t);
  const get = { head: "GET / HTTP/1.1\r\nHost: test\r\n", body: () => null } as const;
  const options = { ...get, retryPolicy: "ifUnanswered" } as const;
  const [first, second] = [
    new TestExchange(undefined, options),
    new TestExchange(undefined, options),
  ];
  await answer(first);
  client.send(second);
  (await request()).end("HTTP/1.1 103 Early Hints\r\n\r\n");
  assert.equal(await second.ended, "closed");
  assert.equal(connections(), 1);
});

const get = { head: "GET / HTTP/1.1\r\nHost: test\r\n", body: () => null } as const;
const head = { head: "HEAD / HTTP/1.1\r\nHost: test\r\n", body: () => null } as const;
const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

test("interim responses do not extend the time limit of the answer", async (t) => {
  const { client, clock, request } = await open(t);
  const exchange = new TestExchange(undefined, get);
  client.send(exchange);
  const socket = await request();
  for (let i = 1; i <= 3; i++) {
    clock.advance(1_500);
    socket.write("HTTP/1.1 103 Early Hints\r\n\r\n");
    // Each interim response is reported in a read of its own.
    while (exchange.calls.length < 2 * i) await new Promise(setImmediate);
  }
  clock.advance(1_200);
  assert.equal(await exchange.ended, "answerTimeout");
});

test("a flood of interim responses is not valid", async (t) => {
  const { answer } = await open(t);
  const exchange = new TestExchange(undefined, get);
  assert.equal(await answer(exchange, "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(3_000)), "garbage");
});

test("fields and trailers of one answer are not seen with the next one, or if they are not kept", async (t) => {
  for (const keepsFields of [true, false]) {
    const { connections, answer } = await open(t, { keepsFields });
    const [first, second] = [new TestExchange(undefined, get), new TestExchange(undefined, get)];
    await answer(first, `${chunked}0\r\nX-Sum: 1\r\n\r\n`);
    await answer(second, "HTTP/1.1 204 No Content\r\n\r\n");
    assert.deepEqual(first.trailers, keepsFields ? ["X-Sum", "1"] : []);
    assert.deepEqual([second.fields, second.trailers], [[[]], []]);
    assert.equal(connections(), 1);
  }
});

const toHead = {
  "a length": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
  chunks: chunked,
  neither: "HTTP/1.1 200 OK\r\n\r\n",
};
for (const [name, sent] of Object.entries(toHead)) {
  test(`an answer to HEAD with ${name} ends with its head, and its connection is closed`, async (t) => {
    const { client, request, connections, answer } = await open(t);
    const exchange = new TestExchange(undefined, head);
    client.send(exchange);
    const socket = await request();
    const closed = once(socket, "close");
    // A body that must not be there would otherwise be read as the answer to the next request.
    socket.write(`${sent}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil`);
    assert.equal(await exchange.ended, "done");
    assert.deepEqual(exchange.calls, ["head", "read", "end"]);
    await closed;
    const next = new TestExchange(undefined, get);
    assert.equal(await answer(next), "done");
    assert.deepEqual(next.calls, ["head", "ok", "read", "end"]);
    assert.equal(connections(), 2);
  });
}

test("the connection of a GET with content is not used again", async (t) => {
  const { connections, answer } = await open(t);
  const exchange = new TestExchange(undefined, { head: get.head });
  assert.equal(await answer(exchange), "done");
  const next = new TestExchange(undefined, get);
  assert.equal(await answer(next), "done");
  assert.equal(connections(), 2);
});

const hostile: Readonly<Record<string, readonly [bytes: string, failure: string]>> = {
  "a length and chunks": [
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "garbage",
  ],
  "a chunk size above 2^53": [`${chunked}ffffffffffffffff\r\n`, "tooLarge"],
  "half a head, then the end": ["HTTP/1.1 200 OK\r\nContent-Le", "closed"],
  "half a body, then the end": ["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", "closed"],
};
for (const [name, [bytes, failure]] of Object.entries(hostile)) {
  test(`${name}: the exchange fails as ${failure}, and the next one gets a new connection`, async (t) => {
    const maxAnswerBytes = Number.MAX_SAFE_INTEGER;
    const { client, request, bugs, answer } = await open(t, { keepsFields: true, maxAnswerBytes });
    const exchange = new TestExchange(undefined, get);
    client.send(exchange);
    (await request()).end(bytes, "latin1");
    assert.equal(await exchange.ended, failure);
    const next = new TestExchange(undefined, get);
    assert.equal(await answer(next), "done");
    assert.deepEqual(bugs, []);
  });
}

test("bytes on an idle connection close it", async (t) => {
  const { client, request, connections, answer } = await open(t);
  const exchange = new TestExchange(undefined, get);
  client.send(exchange);
  const socket = await request();
  socket.write(whole);
  await exchange.ended;
  const closed = once(socket, "close");
  socket.write(whole);
  await closed;
  const next = new TestExchange(undefined, get);
  assert.equal(await answer(next), "done");
  assert.equal(connections(), 2);
});
