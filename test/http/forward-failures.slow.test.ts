import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { Socket } from "node:net";
import { test } from "node:test";
import { manualClock } from "../../src/testing/clock.ts";
import { ask } from "../pipeline/harness.ts";
import {
  deadPort,
  httpUpstream,
  rawClient,
  rawUpstream,
  startForwardingGateway,
} from "./forwarding-gateway.ts";

const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

async function assertUnavailable(port: number): Promise<void> {
  const { status, headers, body } = await ask({ port }, "/");
  assert.equal(status, 503);
  assert.equal(headers["retry-after"], "5");
  assert.deepEqual(JSON.parse(body), {
    error: "temporarily unavailable",
    error_code: "GATEWAY_SERVICE_UNAVAILABLE",
  });
}

test("an upstream that does not listen gives 503 with Retry-After and without the reason", async () => {
  await using gateway = await startForwardingGateway(await deadPort());
  await assertUnavailable(gateway.port);
  await gateway.settled(1);
  assert.deepEqual(gateway.outcomes, ["complete"]);
});

test("if an upstream answers with a 100 that nobody waits for, the client gets a 503", async () => {
  const bytes = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n";
  await using upstream = await rawUpstream((socket) => void socket.end(bytes, "latin1"));
  await using gateway = await startForwardingGateway(upstream.port);
  await assertUnavailable(gateway.port);
  assert.deepEqual(gateway.served.errors, []);
});

test("an upstream that sends no head in time results in a 503, and its connection is closed", async () => {
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  await using upstream = await rawUpstream((socket) => void socket.on("close", resolve));
  await using gateway = await startForwardingGateway(upstream.port, { headersMs: 50 });
  await assertUnavailable(gateway.port);
  await closed;
});

test("an upstream that is silent in the middle of a body is cut off after idleMs", async () => {
  await using upstream = await rawUpstream((socket) => {
    socket.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
  });
  await using gateway = await startForwardingGateway(upstream.port, { idleMs: 50 });
  using client = rawClient(gateway.port);
  client.send(get);
  assert.match(await client.closed(), /\r\n\r\nhalf$/);
  await gateway.settled(1);
  assert.deepEqual(gateway.outcomes, ["timedOut"]);
});

const broken: Readonly<Record<string, string>> = {
  "with a length": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
  "in chunks": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
  "with garbage for a chunk size":
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nzz\r\n",
};
for (const [name, bytes] of Object.entries(broken)) {
  test(`a body ${name} that breaks off never looks complete to the client`, async () => {
    await using upstream = await rawUpstream((socket) => void socket.end(bytes));
    await using gateway = await startForwardingGateway(upstream.port);
    await assert.rejects(ask(gateway, "/"), { code: "ECONNRESET" });
    await gateway.settled(1);
    assert.deepEqual(gateway.outcomes, ["upstreamFailed"]);
  });
}

test("bytes after the length of an answer are dropped", async () => {
  await using upstream = await rawUpstream((socket, _, count) => {
    if (count === 1)
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\noneHTTP/1.1 666 Evil\r\n\r\n");
    else socket.write("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo");
  });
  await using gateway = await startForwardingGateway(upstream.port, { connections: 1 });
  assert.equal((await ask(gateway, "/")).body, "one");
  assert.equal((await ask(gateway, "/")).body, "two");
});

test("a GET on a kept-alive connection that the upstream has closed is retried without an error", async () => {
  const heads: string[] = [];
  await using upstream = await closesOnReuse(heads);
  await using gateway = await startForwardingGateway(upstream.port, { connections: 1 });
  assert.equal((await ask(gateway, "/1")).body, "ok");
  assert.equal((await ask(gateway, "/2")).body, "ok");
  assert.deepEqual(heads, ["GET /1", "GET /2 closed", "GET /2"]);
});

test("a POST on such a connection is an error, because the upstream may have acted on it", async () => {
  const heads: string[] = [];
  await using upstream = await closesOnReuse(heads);
  await using gateway = await startForwardingGateway(upstream.port, { connections: 1 });
  assert.equal((await ask(gateway, "/1")).body, "ok");
  assert.equal((await ask(gateway, "/2", { method: "POST", body: "x" })).status, 503);
  assert.deepEqual(heads, ["GET /1", "POST /2 closed"]);
});

test("a request on a new connection that ends without an answer is not retried", async () => {
  let heads = 0;
  await using upstream = await rawUpstream((socket) => {
    heads++;
    socket.end();
  });
  await using gateway = await startForwardingGateway(upstream.port);
  await assertUnavailable(gateway.port);
  assert.equal(heads, 1);
});

test("a URL that refuses connections is skipped, also for a POST, and then ejected", async () => {
  await using upstream = await httpUpstream((req, res) => void req.pipe(res));
  const clock = manualClock();
  await using gateway = await startForwardingGateway([await deadPort(), upstream.port], { clock });
  for (let i = 0; i < 4; i++) {
    const { status, body } = await ask(gateway, "/", { method: "POST", body: `${i}` });
    assert.deepEqual([status, body], [200, `${i}`]);
  }
  const [dead, alive] = gateway.pools.members;
  assert.deepEqual([dead?.isEjected, alive?.isEjected], [true, false]);
  assert.equal(gateway.pools.next(), alive);
  assert.equal(gateway.pools.next(), alive);
  const again = createServer().listen(Number(dead?.url.port), "127.0.0.1");
  await once(again, "listening");
  clock.advance(4_999);
  assert.equal(dead?.isEjected, true);
  clock.advance(1);
  while (gateway.pools.members[0]?.isEjected) await new Promise(setImmediate);
  assert.deepEqual(new Set([gateway.pools.next(), gateway.pools.next()]), new Set([dead, alive]));
  again.close();
});

test("a request that gets no connection within connectMs results in a 503 and is never sent", async () => {
  const { promise: reached, resolve: taken } = Promise.withResolvers<Socket>();
  const seen: string[] = [];
  await using upstream = await rawUpstream((socket, head) => {
    seen.push(head.slice(0, 6));
    if (seen.length === 1) taken(socket);
    else socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  });
  const clock = manualClock();
  await using gateway = await startForwardingGateway(upstream.port, {
    connections: 1,
    connectMs: 1_000,
    clock,
  });
  const first = ask(gateway, "/1");
  const held = await reached;
  using client = rawClient(gateway.port);
  client.send("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
  while (gateway.pools.members[0]?.client.waiting !== 1) await new Promise(setImmediate);
  clock.advance(999);
  assert.equal(client.received(), "");
  clock.advance(1);
  assert.match(await client.until("\r\n\r\n"), /^HTTP\/1\.1 503 /);
  held.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  assert.equal((await first).body, "ok");
  assert.equal((await ask(gateway, "/3")).body, "ok");
  assert.deepEqual(seen, ["GET /1", "GET /3"]);
});

test("a client that leaves before the upstream answers aborts the upstream request", async () => {
  const { promise: aborted, resolve: abort } = Promise.withResolvers<void>();
  const { promise: reached, resolve: arrived } = Promise.withResolvers<void>();
  await using upstream = await httpUpstream((req) => {
    req.on("close", abort);
    arrived();
  });
  await using gateway = await startForwardingGateway(upstream.port);
  const client = rawClient(gateway.port);
  client.send(get);
  await reached;
  client.socket.destroy();
  await aborted;
  await gateway.settled(1);
  assert.deepEqual(gateway.outcomes, ["clientLeft"]);
});

test("a client that leaves in the middle of its upload aborts the upstream request", async () => {
  const { promise: aborted, resolve: abort } = Promise.withResolvers<unknown>();
  const { promise: reached, resolve: arrived } = Promise.withResolvers<void>();
  await using upstream = await httpUpstream((req) => {
    req.once("data", () => arrived());
    req.on("error", abort);
  });
  await using gateway = await startForwardingGateway(upstream.port);
  const client = rawClient(gateway.port);
  client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf");
  await reached;
  client.socket.destroy();
  assert.ok((await aborted) instanceof Error);
  await gateway.settled(1);
  assert.deepEqual(gateway.outcomes, ["clientLeft"]);
  assert.deepEqual(gateway.served.errors, []);
});

test("a client that leaves in the middle of its answer aborts the upstream request", async () => {
  const { promise: aborted, resolve: abort } = Promise.withResolvers<void>();
  await using upstream = await httpUpstream((_, res) => {
    res.write("half");
    res.on("close", abort);
  });
  await using gateway = await startForwardingGateway(upstream.port);
  const client = rawClient(gateway.port);
  client.send(get);
  await client.until("half");
  client.socket.destroy();
  await aborted;
  await gateway.settled(1);
  assert.deepEqual(gateway.outcomes, ["clientLeft"]);
});

test("a client that leaves while its request waits for a connection frees its place in the queue", async () => {
  const { promise: reached, resolve: taken } = Promise.withResolvers<Socket>();
  const seen: string[] = [];
  await using upstream = await rawUpstream((socket, head) => {
    seen.push(head.slice(0, 6));
    if (seen.length === 1) taken(socket);
    else socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  });
  await using gateway = await startForwardingGateway(upstream.port, { connections: 1 });
  const first = ask(gateway, "/1");
  const held = await reached;
  const client = rawClient(gateway.port);
  client.send("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
  while (gateway.pools.members[0]?.client.waiting !== 1) await new Promise(setImmediate);
  client.socket.destroy();
  await gateway.settled(1);
  held.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  await first;
  assert.equal((await ask(gateway, "/3")).body, "ok");
  assert.deepEqual(seen, ["GET /1", "GET /3"]);
  assert.deepEqual(gateway.outcomes, ["clientLeft", "complete", "complete"]);
});

test("an upload with invalid chunks is refused and aborts the upstream request", async () => {
  const { promise: aborted, resolve: abort } = Promise.withResolvers<unknown>();
  const { promise: reached, resolve: arrived } = Promise.withResolvers<void>();
  await using upstream = await httpUpstream((req) => {
    req.once("data", () => arrived());
    req.on("error", abort);
  });
  await using gateway = await startForwardingGateway(upstream.port);
  using client = rawClient(gateway.port);
  client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
  await reached;
  client.send("zz\r\n");
  assert.ok((await aborted) instanceof Error);
  assert.doesNotMatch(await client.closed(), / 200 /);
  await gateway.settled(1);
});

test("an answer that refuses an upload early is forwarded, and the client's connection is closed", async () => {
  await using upstream = await rawUpstream((socket) => {
    socket.end("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
  });
  await using gateway = await startForwardingGateway(upstream.port);
  using client = rawClient(gateway.port);
  client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nsome");
  const all = await client.closed();
  assert.match(all, /^HTTP\/1\.1 413 [^]*\r\n\r\nno$/);
  assert.match(all, /connection: close/i);
});

test("if the upstream does not read a small upload to its end, the client's connection stays usable", async () => {
  await using upstream = await rawUpstream((socket, _, count) => {
    if (count === 1)
      socket.end("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
    else socket.write("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes");
  });
  await using gateway = await startForwardingGateway(upstream.port);
  using client = rawClient(gateway.port);
  client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nhalf");
  await client.until("no");
  client.send(`rest${get}`);
  assert.match(await client.until("yes"), /^HTTP\/1\.1 403 [^]*HTTP\/1\.1 200 /);
});

/** An upstream that answers the first request on a connection and resets the connection on the second. */
function closesOnReuse(heads: string[]) {
  const used = new WeakSet<Socket>();
  return rawUpstream((socket, head) => {
    const line = head.slice(0, head.indexOf(" HTTP"));
    if (used.has(socket)) {
      heads.push(`${line} closed`);
      socket.resetAndDestroy();
      return;
    }
    used.add(socket);
    heads.push(line);
    socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  });
}

test("an upload that moved to another URL is not ended by the failed attempt", async () => {
  const { promise: reached, resolve: taken } = Promise.withResolvers<Socket>();
  const heads: string[] = [];
  await using busy = await rawUpstream((socket, head) => {
    heads.push(head.slice(0, 6));
    if (heads.length === 1) taken(socket);
    else socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  });
  const { promise: began, resolve: begin } = Promise.withResolvers<void>();
  await using free = await httpUpstream((req, res) => {
    let body = "";
    req.on("data", (chunk: Buffer) => {
      body += chunk.toString();
      begin();
    });
    req.on("end", () => res.end(body));
  });
  const clock = manualClock();
  const options = { connections: 1, connectMs: 1_000, clock };
  await using gateway = await startForwardingGateway([busy.port, free.port], options);
  const first = ask(gateway, "/1");
  const held = await reached;
  // The urls take turns: the next request goes to the free one, and the one after it waits for the busy one.
  assert.equal((await ask(gateway, "/2", { method: "POST", body: "a" })).body, "a");
  using client = rawClient(gateway.port);
  client.send("POST /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  const queued = (): number | undefined => gateway.pools.members[0]?.client.waiting;
  while (queued() !== 1) await new Promise(setImmediate);
  clock.advance(1_000);
  client.send("5\r\nhello\r\n");
  await began;
  // Now the busy url has room.
  held.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  assert.equal((await first).body, "ok");
  while (queued() !== 0) await new Promise(setImmediate);
  client.send("6\r\n world\r\n0\r\n\r\n");
  assert.match(await client.until("hello world"), /^HTTP\/1\.1 200 /);
  assert.deepEqual(heads, ["GET /1"]);
});

test("an upstream is ready until none of its urls accepts connections, and again when one does", async () => {
  const first = await httpUpstream((_, res) => void res.end("ok"));
  const { port } = first;
  const clock = manualClock();
  await using gateway = await startForwardingGateway([port, await deadPort()], { clock });
  const { pools } = gateway;
  assert.equal(pools.ready, true);
  assert.equal((await ask(gateway, "/")).status, 200);
  assert.equal((await ask(gateway, "/")).status, 200);
  assert.equal(pools.ready, true);
  await first[Symbol.asyncDispose]();
  await assertUnavailable(gateway.port);
  assert.equal(pools.ready, false);

  // No request is sent meanwhile, so a probe must detect it.
  const again = createServer((_, res) => void res.end("ok")).listen(port, "127.0.0.1");
  await once(again, "listening");
  clock.advance(5_000);
  while (!pools.ready) await new Promise(setImmediate);
  again.close();
});
