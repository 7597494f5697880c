/** The listener of a gateway with one surface: routing, malformed HTTP, draining; and the parser of X-Forwarded-For. */
import assert from "node:assert/strict";
import { connect } from "node:net";
import { test } from "node:test";
import type { Exchange, Reply } from "../../src/plugin.ts";
import { addressReader } from "../../src/message/address.ts";
import { ask, serve } from "../pipeline/harness.ts";
import { rawClient } from "./forwarding-gateway.ts";

const hello = { answer: (): Reply => ({ status: 200, body: "hello" }) };

async function raw(port: number, text: string): Promise<string> {
  using client = rawClient(port);
  client.send(text);
  return await client.closed();
}

test("a WebSocket handshake on a path that only takes requests gets 426 instead of 405", async () => {
  await using served = await serve([{ path: "/x", methods: ["POST"], surface: hello }]);
  const headers = { upgrade: "WebSocket", connection: "Upgrade" };
  const asked = await ask(served, "/x", { headers });
  assert.equal(asked.status, 426);
  assert.deepEqual([asked.headers.allow, asked.headers.upgrade], ["POST", "HTTP/1.1"]);
  assert.equal(JSON.parse(asked.body).details.reason, "upgrade_required");
  assert.equal((await ask(served, "/y", { headers })).status, 404);
});

test("/healthz answers while the process runs, and /readyz reports whether it can serve", async () => {
  let ready = true;
  await using served = await serve([], { ready: () => ready });
  assert.equal((await ask(served, "/healthz")).status, 200);
  assert.equal((await ask(served, "/readyz")).status, 200);
  ready = false;
  assert.equal((await ask(served, "/healthz")).status, 200);
  assert.equal((await ask(served, "/readyz")).status, 503);
  assert.equal((await ask(served, "/readyz", { method: "POST" })).status, 405);
  const head = await ask(served, "/healthz", { method: "HEAD" });
  assert.deepEqual([head.status, head.body], [200, ""]);
});

test("an absolute-form target is routed by its path", async () => {
  await using served = await serve([{ path: "/x", surface: hello }]);
  const close = "host: elsewhere\r\nconnection: close\r\n\r\n";
  assert.match(
    await raw(served.port, `GET http://elsewhere/x?a=1 HTTP/1.1\r\n${close}`),
    / 200 .*hello$/s,
  );
  assert.match(await raw(served.port, `GET http://elsewhere HTTP/1.1\r\n${close}`), / 404 /);
  assert.match(await raw(served.port, `OPTIONS * HTTP/1.1\r\n${close}`), / 404 /);
});

test("bytes that are not HTTP get the canonical envelope, and the connection is closed", async () => {
  await using served = await serve([{ path: "/x", surface: hello }]);
  const bad = await raw(served.port, "not http at all\r\n\r\n");
  assert.match(bad, /^HTTP\/1\.1 400 /);
  assert.match(bad, /x-request-id: [0-9a-f-]{36}/);
  assert.match(bad, /"error_code":"GATEWAY_INVALID_PARAMS"/);
  const long = await raw(
    served.port,
    `GET /x HTTP/1.1\r\nhost: x\r\nx: ${"y".repeat(20_000)}\r\n\r\n`,
  );
  assert.match(long, /^HTTP\/1\.1 431 /);
});

test("answers to requests before malformed bytes in the same packet are delivered, then the connection closes", async () => {
  // Finding 15: they may have been charged.
  const surface = {
    async answer(x: Exchange): Promise<Reply> {
      // The malformed bytes are read in the meantime.
      for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
      return { status: 200, body: `answered ${x.request.query}` };
    },
  };
  await using served = await serve([{ path: "/x", surface }]);
  for (const isFast of [true, false]) {
    // node:http handles requests with a repeated field.
    const fields = isFast ? "a: 1\r\n" : "a: 1\r\na: 2\r\n";
    const request = (n: number): string => `GET /x?${n} HTTP/1.1\r\nhost: x\r\n${fields}\r\n`;
    const all = await raw(served.port, `${request(1)}${request(2)}not http at all\r\n\r\n`);
    assert.match(all, /^HTTP\/1\.1 200 .*answered 1HTTP\/1\.1 200 .*answered 2/s);
  }
  assert.equal(served.listener.running, 0);
});

test("a stream is delivered to its end if the head of the next request does not arrive in time", async () => {
  const surface = {
    async answer(x: Exchange): Promise<undefined> {
      const sink = await x.stream(200, []);
      sink.write(Buffer.from("first"));
      await new Promise((resolve) => setTimeout(resolve, 200));
      await sink.end(undefined, Buffer.from("last"));
    },
  };
  await using served = await serve([{ path: "/x", surface }], { server: { headersMs: 30 } });
  const request = "GET /x HTTP/1.1\r\nhost: x\r\na: 1\r\na: 2\r\n\r\n";
  assert.match(await raw(served.port, `${request}GET /x HT`), /first.*last/s);
});

test("a client that leaves after malformed bytes ends the exchange before them", async () => {
  const entered = Promise.withResolvers<void>();
  const left = Promise.withResolvers<void>();
  const surface = {
    async answer(x: Exchange): Promise<Reply> {
      x.onAbort = { aborted: left.resolve };
      entered.resolve();
      await left.promise;
      return { status: 200 };
    },
  };
  await using served = await serve([{ path: "/x", surface }]);
  const socket = connect(served.port, "127.0.0.1");
  socket.write("GET /x HTTP/1.1\r\nhost: x\r\na: 1\r\na: 2\r\n\r\nnot http at all\r\n\r\n");
  await entered.promise;
  socket.write("more of it\r\n\r\n");
  socket.resetAndDestroy();
  await left.promise;
});

test("a client whose upload is refused can still read the answer, whatever the size", async () => {
  const deny = { name: "deny", requestHeaders: (): Reply => ({ status: 401, body: "no" }) };
  await using served = await serve([{ path: "/x", steps: [deny], surface: hello }]);
  const { status } = await ask(served, "/x", { method: "POST", body: Buffer.alloc(8 << 20) });
  assert.equal(status, 401);
});

test("answers of the listener itself also have X-Request-Id", async () => {
  await using served = await serve([{ path: "/x", surface: hello }]);
  const given = await ask(served, "/healthz", { headers: { "x-request-id": "mine" } });
  assert.equal(given.headers["x-request-id"], "mine");
  const replaced = await ask(served, "/readyz", { headers: { "x-request-id": "with space" } });
  assert.match(String(replaced.headers["x-request-id"]), /^[0-9a-f-]{36}$/);
  const expecting = await ask(served, "/x", { headers: { expect: "tea", "x-request-id": "mine" } });
  assert.deepEqual([expecting.status, expecting.headers["x-request-id"]], [417, "mine"]);
});

test("draining closes kept-alive connections after their answer and waits for running exchanges", async () => {
  const gate = Promise.withResolvers<void>();
  const entered = Promise.withResolvers<void>();
  const slow = {
    async answer(): Promise<Reply> {
      entered.resolve();
      await gate.promise;
      return { status: 200, body: "late" };
    },
  };
  await using served = await serve([
    { path: "/x", surface: hello },
    { path: "/slow", surface: slow },
  ]);
  using idle = rawClient(served.port);
  idle.send("GET /x HTTP/1.1\r\nhost: x\r\n\r\n");
  await idle.until("hello");
  const late = ask(served, "/slow");
  await entered.promise;
  served.listener.beginDrain();
  const idleClosed = idle.closed();
  const still = await ask(served, "/x");
  assert.equal(still.headers.connection, "close", "a new connection is still served");
  const closed = served.listener.close(5_000);
  await idleClosed;
  await assert.rejects(ask(served, "/x"), "no new connection is taken");
  gate.resolve();
  assert.equal((await late).body, "late");
  await closed;
  assert.equal(served.listener.running, 0);
});

test("an exchange that outlives the drain is cut off, and the stop waits for its surface", async () => {
  const entered = Promise.withResolvers<void>();
  const stuck = {
    async answer(x: Exchange): Promise<Reply> {
      entered.resolve();
      await new Promise((resolve) => x.signal.addEventListener("abort", resolve));
      return { status: 200 };
    },
  };
  await using served = await serve([{ path: "/x", surface: stuck }]);
  const cut = assert.rejects(ask(served, "/x"));
  await entered.promise;
  await served.listener.close(20);
  await cut;
  assert.equal(served.listener.running, 0);
});

test("X-Forwarded-For is used only from trusted proxies and is read from the right", () => {
  const from = (peer: string, forwarded?: string): never =>
    ({ socket: { remoteAddress: peer }, headers: { "x-forwarded-for": forwarded } }) as never;
  const trusting = addressReader(["10.0.0.0/8", "fd00::/8"]);
  assert.equal(addressReader([])(from("10.0.0.1", "1.1.1.1")), "10.0.0.1");
  assert.equal(trusting(from("9.9.9.9", "1.1.1.1")), "9.9.9.9");
  assert.equal(trusting(from("10.0.0.1", "1.1.1.1")), "1.1.1.1");
  assert.equal(trusting(from("::ffff:10.0.0.1", "6.6.6.6, 1.1.1.1, 10.2.3.4")), "1.1.1.1");
  assert.equal(trusting(from("10.0.0.1", "6.6.6.6, nonsense, 10.2.3.4")), "10.2.3.4");
  assert.equal(trusting(from("fd00::1", "2001:db8::5")), "2001:db8::5");
  assert.equal(trusting(from("10.0.0.1")), "10.0.0.1");
});
