import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { open, TestExchange, whole } from "./scripted-backend.ts";

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
  const { client, request } = await open(t);
  const exchange = new TestExchange(undefined, get);
  client.send(exchange);
  (await request()).write("HTTP/1.1 103 Early Hints\r\n\r\n".repeat(3_000));
  assert.equal(await exchange.ended, "garbage");
});

test("fields and trailers of one answer are not seen with the next one, or if they are not kept", async (t) => {
  for (const keepsFields of [true, false]) {
    const { client, request, connections } = await open(t, { keepsFields });
    const [first, second] = [new TestExchange(undefined, get), new TestExchange(undefined, get)];
    client.send(first);
    (await request()).write(`${chunked}0\r\nX-Sum: 1\r\n\r\n`);
    await first.ended;
    client.send(second);
    (await request()).write("HTTP/1.1 204 No Content\r\n\r\n");
    await second.ended;
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
for (const [name, answer] of Object.entries(toHead)) {
  test(`an answer to HEAD with ${name} ends with its head, and its connection is closed`, async (t) => {
    const { client, request, connections } = await open(t);
    const exchange = new TestExchange(undefined, head);
    client.send(exchange);
    const socket = await request();
    const closed = once(socket, "close");
    // A body that must not be there would otherwise be read as the answer to the next request.
    socket.write(`${answer}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil`);
    assert.equal(await exchange.ended, "done");
    assert.deepEqual(exchange.calls, ["head", "read", "end"]);
    await closed;
    const next = new TestExchange(undefined, get);
    client.send(next);
    (await request()).write(whole);
    assert.equal(await next.ended, "done");
    assert.deepEqual(next.calls, ["head", "ok", "read", "end"]);
    assert.equal(connections(), 2);
  });
}

test("the connection of a GET with content is not used again", async (t) => {
  const { client, request, connections } = await open(t);
  const exchange = new TestExchange(undefined, { head: get.head });
  client.send(exchange);
  (await request()).write(whole);
  assert.equal(await exchange.ended, "done");
  const next = new TestExchange(undefined, get);
  client.send(next);
  (await request()).write(whole);
  assert.equal(await next.ended, "done");
  assert.equal(connections(), 2);
});

const hostile: Readonly<Record<string, readonly [bytes: string, failure: string]>> = {
  "bytes that are not HTTP": ["SSH-2.0-OpenSSH_9.7\r\n", "garbage"],
  "a length and chunks": [
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "garbage",
  ],
  "a field of 17 KB": [`HTTP/1.1 200 OK\r\nX: ${"a".repeat(17_000)}\r\n\r\n`, "garbage"],
  "a head of 70 KB": [`HTTP/1.1 200 OK\r\n${"X: y\r\n".repeat(12_000)}\r\n`, "garbage"],
  "trailers of 70 KB": [`${chunked}0\r\n${"X: y\r\n".repeat(12_000)}\r\n`, "garbage"],
  "a chunk size that is not a number": [`${chunked}zz\r\n`, "garbage"],
  "a chunk size above 2^53": [`${chunked}ffffffffffffffff\r\n`, "tooLarge"],
  "a chunk without its end": [`${chunked}2\r\nhiX\r\n`, "garbage"],
  "a switch of protocols": ["HTTP/1.1 101 Switching Protocols\r\n\r\n", "garbage"],
  "half a head, then the end": ["HTTP/1.1 200 OK\r\nContent-Le", "closed"],
  "half a body, then the end": ["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", "closed"],
};
for (const [name, [bytes, failure]] of Object.entries(hostile)) {
  test(`${name}: the exchange fails as ${failure}, and the next one gets a new connection`, async (t) => {
    const maxAnswerBytes = Number.MAX_SAFE_INTEGER;
    const { client, request, bugs } = await open(t, { keepsFields: true, maxAnswerBytes });
    const exchange = new TestExchange(undefined, get);
    client.send(exchange);
    (await request()).end(bytes, "latin1");
    assert.equal(await exchange.ended, failure);
    const next = new TestExchange(undefined, get);
    client.send(next);
    (await request()).write(whole);
    assert.equal(await next.ended, "done");
    assert.deepEqual(bugs, []);
  });
}

test("bytes on an idle connection close it", async (t) => {
  const { client, request, connections } = await open(t);
  const exchange = new TestExchange(undefined, get);
  client.send(exchange);
  const socket = await request();
  socket.write(whole);
  await exchange.ended;
  const closed = once(socket, "close");
  socket.write(whole);
  await closed;
  const next = new TestExchange(undefined, get);
  client.send(next);
  (await request()).write(whole);
  assert.equal(await next.ended, "done");
  assert.equal(connections(), 2);
});
