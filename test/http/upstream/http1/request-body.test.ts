import assert from "node:assert/strict";
import { once } from "node:events";
import type { Socket } from "node:net";
import { Readable } from "node:stream";
import { test } from "node:test";
import type { StreamedBody } from "../../../../src/http/upstream/http1/exchange.ts";
import { open, TestExchange, whole, type Opened } from "./scripted-backend.ts";

interface Upload {
  readonly exchange: TestExchange;
  readonly source: Readable;
  readonly failures: string[];
}

/** An exchange with a streamed body. Like `forward`, it aborts the request if the body fails. */
function uploadOf(body: { length?: number; maxBytes?: number; source?: Readable } = {}): Upload {
  const { length, maxBytes = 1_000_000_000, source = new Readable({ read() {} }) } = body;
  const failures: string[] = [];
  const streamed: StreamedBody = {
    length,
    maxBytes,
    open: () => source,
    onError(reason) {
      failures.push(reason);
      exchange.carrier?.abort();
    },
  };
  const exchange = new TestExchange(undefined, { body: () => streamed });
  return { exchange, source, failures };
}

/** Sends an exchange over a connection that has carried another one before. Returns the backend's end. */
async function sendOnKept({ client, request }: Opened, exchange: TestExchange): Promise<Socket> {
  const first = new TestExchange();
  client.send(first);
  (await request()).write(whole);
  await first.ended;
  client.send(exchange);
  return request();
}

for (const size of [3, 40_000]) {
  test(`a body of ${size} bytes that has arrived is sent with its head`, async (t) => {
    const { client, request, until } = await open(t);
    const text = "x".repeat(size);
    const source = new Readable({ read() {} });
    source.push(text);
    const { exchange, failures } = uploadOf({ length: size, source });
    client.send(exchange);
    const socket = await request();
    assert.ok((await until(socket, text)).endsWith(`content-length: ${size}\r\n\r\n${text}`));
    source.push(null);
    await once(source, "end");
    socket.write(whole);
    assert.equal(await exchange.ended, "done");
    assert.deepEqual(failures, []);
  });
}

test("the excess of a body that is longer than announced is never sent", async (t) => {
  const { client, request, until, received } = await open(t);
  const { exchange, source, failures } = uploadOf({ length: 4 });
  client.send(exchange);
  const socket = await request();
  source.push("abc");
  await until(socket, "abc");
  const closed = once(socket, "close");
  source.push("dGET / HTTP/1.1\r\n\r\n");
  await closed;
  assert.deepEqual(failures, ["tooLarge"]);
  assert.ok(received(socket).endsWith("\r\n\r\nabc"));
});

const endings: Readonly<Record<string, (source: Readable) => void>> = {
  "ends before its length": (source) => void source.push(null),
  "is destroyed": (source) => void source.destroy(),
  fails: (source) => void source.destroy(new Error("the client has left")),
};
for (const [name, end] of Object.entries(endings)) {
  test(`a body that ${name} never looks complete to the backend`, async (t) => {
    const { client, request, until, received, bugs } = await open(t);
    const { exchange, source, failures } = uploadOf({ length: 10 });
    client.send(exchange);
    const socket = await request();
    source.push("half");
    await until(socket, "half");
    const closed = once(socket, "close");
    end(source);
    await closed;
    assert.deepEqual(failures, ["incomplete"]);
    assert.ok(received(socket).endsWith("half"));
    assert.deepEqual(bugs, []);
  });
}

test("a chunked body that is cut off gets no last chunk", async (t) => {
  const { client, request, until, received } = await open(t);
  const { exchange, source, failures } = uploadOf();
  client.send(exchange);
  const socket = await request();
  source.push("half");
  await until(socket, "half\r\n");
  const closed = once(socket, "close");
  source.destroy();
  await closed;
  assert.deepEqual(failures, ["incomplete"]);
  assert.ok(received(socket).endsWith("4\r\nhalf\r\n"));
});

for (const isKept of [false, true]) {
  test(`a backend that closes a ${isKept ? "kept" : "new"} connection in the middle of an upload fails it, once`, async (t) => {
    const backend = await open(t);
    const { exchange, source, failures } = uploadOf({ length: 1_000 });
    let socket: Socket;
    if (isKept) socket = await sendOnKept(backend, exchange);
    else {
      backend.client.send(exchange);
      socket = await backend.request();
    }
    source.push("some");
    await backend.until(socket, "some");
    socket.resetAndDestroy();
    assert.equal(await exchange.ended, "closed");
    assert.deepEqual(exchange.calls, ["closed"]);
    assert.deepEqual(failures, []);
    assert.equal(backend.connections(), 1);
  });
}

test("each part of an upload restarts the time limit of the answer", async (t) => {
  const { client, clock, request, until } = await open(t);
  const { exchange, source } = uploadOf();
  client.send(exchange);
  const socket = await request();
  for (const part of ["one", "two", "three"]) {
    clock.advance(4_000);
    source.push(part);
    await until(socket, part);
  }
  assert.deepEqual(exchange.calls, []);
  clock.advance(5_500);
  assert.equal(await exchange.ended, "answerTimeout");
});

test("an exception while the stream is opened fails only its exchange", async (t) => {
  const { client, bugs } = await open(t);
  const body: StreamedBody = {
    length: 1,
    maxBytes: 1,
    open() {
      throw new Error("a bug in open");
    },
    onError() {},
  };
  const exchange = new TestExchange(undefined, { body: () => body });
  client.send(exchange);
  assert.equal(await exchange.ended, "internal");
  assert.deepEqual(bugs.map(String), ["Error: a bug in open"]);
});

test("an exception in onError is reported, and the connection is closed", async (t) => {
  const { client, bugs, request } = await open(t);
  const source = new Readable({ read() {} });
  const body: StreamedBody = {
    length: 10,
    maxBytes: 10,
    open: () => source,
    onError() {
      throw new Error("a bug in onError");
    },
  };
  const exchange = new TestExchange(undefined, { body: () => body });
  client.send(exchange);
  await request();
  source.push(null);
  assert.equal(await exchange.ended, "internal");
  assert.deepEqual(bugs.map(String), ["Error: a bug in onError"]);
});
