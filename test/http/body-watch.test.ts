/** Unfinished bodies (finding 4): how fast they must arrive, and how many bytes they may hold. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { test } from "node:test";
import { createMetrics, type RenderedMetrics } from "../../src/base/metrics.ts";
import type { Exchange, Reply } from "../../src/plugin.ts";
import { manualClock, type ManualClock } from "../../src/testing/clock.ts";
import { collectedMemory } from "../memory.ts";
import { ask, serve, type Served, type TestStep } from "../pipeline/harness.ts";

const kibibyte = 1024;

interface Bench extends AsyncDisposable {
  readonly clock: ManualClock;
  readonly served: Served;
  readonly metrics: RenderedMetrics;
  /** Returns the number of bytes that the gateway reports as held by unfinished bodies. */
  held(): number;
  /** Starts a body of `announced` bytes with `sent` of them. Without `announced`, the body is chunked. */
  start(options: {
    announced?: number;
    sent: number;
    key?: string;
    path?: string;
  }): Promise<Client>;
  holds(bytes: number): Promise<void>;
}

class Client {
  readonly socket: Socket;
  text = "";
  isClosed = false;

  constructor(socket: Socket) {
    this.socket = socket;
    socket.on("data", (chunk) => (this.text += chunk.toString("latin1")));
    socket.on("error", () => {});
    socket.on("close", () => (this.isClosed = true));
  }

  send(bytes: number): void {
    this.socket.write(Buffer.alloc(bytes, "x"));
  }

  async status(): Promise<number> {
    while (!this.text.includes("\r\n\r\n")) await once(this.socket, "data");
    return Number(this.text.split(" ", 2)[1]);
  }
}

/** Reads the key and its rate from two fields, as `authenticate` reads the key from `Authorization`. */
const identify: TestStep = {
  name: "identify",
  requestHeaders(x: Exchange) {
    const { "x-key": id, "x-rps": rps = "1" } = x.request.headers;
    if (id === undefined) return;
    x.note("caller", {
      id: String(id),
      group: "ws_1",
      burst: 2 * Number(rps),
      isOperator: false,
    });
  },
};

const kept = {
  body: { bytes: 1 << 20 },
  answer: (x: Exchange): Reply => ({ status: 200, body: String(x.body?.length) }),
};

const streamed = {
  async answer(x: Exchange): Promise<Reply> {
    let bytes = 0;
    for await (const chunk of x.bodyStream()) bytes += (chunk as Buffer).length;
    return { status: 200, body: String(bytes) };
  },
};

async function bench(
  server: { unfinishedBodyBytes?: number; connections?: number } = {},
): Promise<Bench> {
  const clock = manualClock();
  const metrics = createMetrics();
  const served = await serve(
    [
      { path: "/kept", steps: [identify], surface: kept },
      { path: "/streamed", surface: streamed },
    ],
    { clock, metrics, server: { bodyIdleMs: 30_000, ...server } },
  );
  const clients: Client[] = [];
  const held = (): number => metrics.read("sluice_unfinished_body_bytes")[0]?.value ?? NaN;
  return {
    clock,
    served,
    metrics,
    held,
    async start({ announced, sent, key, path = "/kept" }) {
      const socket = connect(served.port, "127.0.0.1");
      const client = new Client(socket);
      clients.push(client);
      await once(socket, "connect");
      const field = key === undefined ? "" : `x-key: ${key}\r\n`;
      // node:http handles requests with a repeated field.
      const length =
        announced === undefined ? "transfer-encoding: chunked" : `content-length: ${announced}`;
      const fields = `host: a\r\nx: 1\r\nx: 2\r\n${field}${length}\r\n`;
      socket.write(`POST ${path} HTTP/1.1\r\n${fields}\r\n`);
      client.send(sent);
      return client;
    },
    async holds(bytes) {
      while (held() !== bytes) await new Promise(setImmediate);
    },
    async [Symbol.asyncDispose]() {
      for (const { socket } of clients) socket.destroy();
      await served[Symbol.asyncDispose]();
    },
  };
}

test("a body that gains less than 64 KiB in 10 seconds is 408", async () => {
  await using gateway = await bench();
  const slow = await gateway.start({ announced: 1 << 20, sent: 200 * kibibyte });
  await gateway.holds(200 * kibibyte);
  gateway.clock.advance(1_000);
  for (let second = 1; second < 9; second++) {
    slow.send(kibibyte);
    await gateway.holds((200 + second) * kibibyte);
    gateway.clock.advance(1_000);
    assert.equal(slow.text, "", `after ${second + 1} s`);
  }
  gateway.clock.advance(3_000);
  assert.equal(await slow.status(), 408);
  assert.match(slow.text, /"details":\{"reason":"request_timeout"\}/);
  assert.match(slow.text, /connection: close/i);
  assert.equal(gateway.held(), 0);
  const refusals = gateway.metrics.read("sluice_unfinished_body_refusals_total");
  assert.equal(refusals.find(({ labels }) => labels["limit"] === "slow")?.value, 1);
});

test("a short body that is not complete after 11 seconds is 408", async () => {
  await using gateway = await bench();
  const slow = await gateway.start({ announced: 100, sent: 1 });
  for (let sent = 1; sent <= 10; sent++) {
    await gateway.holds(sent);
    gateway.clock.advance(1_000);
    assert.equal(slow.text, "", `after ${sent} s`);
    slow.send(1);
  }
  gateway.clock.advance(1_000);
  assert.equal(await slow.status(), 408);
});

test("a body that gains 64 KiB in every 10 seconds may take its time", async () => {
  await using gateway = await bench();
  const steady = await gateway.start({ announced: 10 * 64 * kibibyte, sent: 64 * kibibyte });
  for (let pieces = 1; pieces < 10; pieces++) {
    await gateway.holds(pieces * 64 * kibibyte);
    gateway.clock.advance(9_000);
    assert.equal(steady.text, "", `after ${pieces} pieces`);
    steady.send(64 * kibibyte);
  }
  assert.equal(await steady.status(), 200);
  assert.equal(gateway.held(), 0);
});

test("a streamed body is cut off if it is too slow", async () => {
  await using gateway = await bench();
  const slow = await gateway.start({ announced: 100, sent: 1, path: "/streamed" });
  while (gateway.served.listener.running === 0) await new Promise(setImmediate);
  gateway.clock.advance(10_000);
  await new Promise(setImmediate);
  assert.equal(slow.isClosed, false);
  gateway.clock.advance(2_000);
  await once(slow.socket, "close");
});

test("when unfinished bodies together hold too much, the newest get 503 and the others are served", async () => {
  await using gateway = await bench({ unfinishedBodyBytes: 1 << 20 });
  const announced = 500 * kibibyte;
  const first = await gateway.start({ announced, sent: 400 * kibibyte, key: "a" });
  await gateway.holds(400 * kibibyte);
  const second = await gateway.start({ announced, sent: 400 * kibibyte, key: "b" });
  await gateway.holds(800 * kibibyte);
  const third = await gateway.start({ announced, sent: 100 * kibibyte, key: "c" });
  await gateway.holds(900 * kibibyte);
  const fourth = await gateway.start({ announced, sent: 10, key: "d" });
  await gateway.holds(900 * kibibyte + 10);
  second.send(99 * kibibyte);
  await gateway.holds(999 * kibibyte + 10);
  // The body that exceeds the limit is not one of the newest, and the newest alone holds too little.
  first.send(99 * kibibyte);
  assert.deepEqual([await fourth.status(), await third.status()], [503, 503]);
  assert.match(third.text, /"error_code":"GATEWAY_SERVICE_UNAVAILABLE"/);
  await gateway.holds(998 * kibibyte);
  first.send(kibibyte);
  second.send(kibibyte);
  assert.deepEqual([await first.status(), await second.status()], [200, 200]);
  await gateway.holds(0);
});

test("a new body that is nearly empty is not refused in place of the bodies that hold the memory", async () => {
  await using gateway = await bench({ unfinishedBodyBytes: 100 * kibibyte });
  const announced = 200 * kibibyte;
  const old = await gateway.start({ announced, sent: 40 * kibibyte, key: "a" });
  await gateway.holds(40 * kibibyte);
  const large = await gateway.start({ announced, sent: 40 * kibibyte, key: "b" });
  await gateway.holds(80 * kibibyte);
  const empty = await gateway.start({ announced, sent: 1, key: "c" });
  await gateway.holds(80 * kibibyte + 1);
  const other = await gateway.start({ announced, sent: 30 * kibibyte, key: "d" });
  assert.equal(await other.status(), 503);
  assert.ok(gateway.held() <= 100 * kibibyte);
  assert.deepEqual([old.text, large.text, empty.text], ["", "", ""]);
});

test("one key may have four unfinished bodies, or as many as its burst; a further one gets 429", async () => {
  await using gateway = await bench();
  const clients: Client[] = [];
  for (let count = 1; count <= 4; count++) {
    clients.push(await gateway.start({ announced: 10, sent: 1, key: "a" }));
    await gateway.holds(count);
  }
  const more = await gateway.start({ announced: 10, sent: 1, key: "a" });
  assert.equal(await more.status(), 429);
  assert.match(more.text, /"error":"too many requests","error_code":"GATEWAY_RATE_LIMITED"\}/);
  const other = await gateway.start({ announced: 10, sent: 1, key: "b" });
  await gateway.holds(5);
  other.send(9);
  assert.equal(await other.status(), 200);
  clients[0]?.send(9);
  assert.equal(await clients[0]?.status(), 200);
  // One of the four may start again, and a body that arrives completely at once does not count.
  clients.push(await gateway.start({ announced: 10, sent: 1, key: "a" }));
  await gateway.holds(4);
  const headers = { "x-key": "a" };
  const whole = await ask(gateway.served, "/kept", { method: "POST", headers, body: "hello" });
  assert.equal(whole.status, 200);
  const fast = { "x-key": "b\r\nx-rps: 3" };
  for (let count = 1; count <= 6; count++) {
    await gateway.start({ announced: 10, sent: 1, key: fast["x-key"] });
    await gateway.holds(4 + count);
  }
  const seventh = await gateway.start({ announced: 10, sent: 1, key: fast["x-key"] });
  assert.equal(await seventh.status(), 429);
});

test("one key may hold half of all bytes; a further body of that key gets 429", async () => {
  await using gateway = await bench({ unfinishedBodyBytes: 1 << 20 });
  const announced = 500 * kibibyte;
  await gateway.start({ announced, sent: 400 * kibibyte, key: "a" });
  await gateway.holds(400 * kibibyte);
  const second = await gateway.start({ announced, sent: 200 * kibibyte, key: "a" });
  assert.equal(await second.status(), 429);
  await gateway.holds(400 * kibibyte);
});

test("a body in chunks of one byte holds not much more memory than its bytes", async () => {
  await using gateway = await bench();
  const memory = collectedMemory();
  const { socket } = await gateway.start({ sent: 0 });
  await gateway.holds(0);
  const before = memory();
  const count = 100_000;
  socket.write("1\r\nx\r\n".repeat(count));
  await gateway.holds(count);
  const grown = memory() - before;
  assert.ok(grown < 20 * count, `${grown} bytes for ${count}`);
});

test("connections above the limit are closed at once, counted and logged once; after a connection has ended, a new one is accepted", async () => {
  await using gateway = await bench({ connections: 2 });
  const refusedCount = (): number =>
    gateway.metrics.read("sluice_connections_refused_total")[0]?.value ?? NaN;
  const first = await gateway.start({ announced: 10, sent: 1, key: "a" });
  await gateway.start({ announced: 10, sent: 1, key: "b" });
  await gateway.holds(2);
  const third = connect(gateway.served.port, "127.0.0.1");
  third.on("error", () => {});
  third.resume();
  await once(third, "close");
  const fourth = connect(gateway.served.port, "127.0.0.1");
  fourth.on("error", () => {});
  fourth.resume();
  await once(fourth, "close");
  assert.equal(refusedCount(), 2);
  assert.equal(gateway.served.warnings.length, 1);
  assert.match(gateway.served.warnings[0] ?? "", /server\.connections/);
  first.socket.destroy();
  await gateway.holds(1);
  const next = await ask(gateway.served, "/kept", { method: "POST", body: "hello" });
  assert.equal(next.status, 200);
});
