import assert from "node:assert/strict";
import { once } from "node:events";
import net, { type AddressInfo, type Socket } from "node:net";
import { test, type TestContext } from "node:test";
import { Http1Client } from "../../../../src/http/upstream/http1/client.ts";
import type {
  Http1Carrier,
  UpstreamExchange,
  UpstreamFailure,
} from "../../../../src/http/upstream/http1/exchange.ts";
import { manualClock, type ManualClock } from "../../../../src/testing/clock.ts";

interface Opened {
  readonly client: Http1Client;
  readonly clock: ManualClock;
  /** The errors that `onBug` received. */
  readonly bugs: unknown[];
  /** Resolves to the socket of the next request that arrives, in order of arrival. */
  readonly request: () => Promise<Socket>;
  readonly connections: () => number;
}

/** Starts a backend that leaves each answer to the test, and a client for it. */
async function open(t: TestContext): Promise<Opened> {
  const arrived: Socket[] = [];
  const waiting: ((socket: Socket) => void)[] = [];
  const sockets = new Set<Socket>();
  let connections = 0;
  const server = net.createServer((socket) => {
    connections++;
    sockets.add(socket);
    socket.on("error", () => {});
    // Each request of these tests arrives in one read.
    socket.on("data", () => {
      const next = waiting.shift();
      if (next === undefined) arrived.push(socket);
      else next(socket);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const clock = manualClock();
  const bugs: unknown[] = [];
  const client = new Http1Client({
    url: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
    connections: Infinity,
    connectMs: 1_000,
    answerMs: 5_000,
    idleMs: 2_000,
    unusedMs: 60_000,
    maxAnswerBytes: 1_000_000,
    clock,
    onBug: (error) => bugs.push(error),
  });
  t.after(async () => {
    await client.close();
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const request = (): Promise<Socket> => {
    const socket = arrived.shift();
    return socket === undefined
      ? new Promise((resolve) => waiting.push(resolve))
      : Promise.resolve(socket);
  };
  return { client, clock, bugs, request, connections: () => connections };
}

class TestExchange implements UpstreamExchange {
  readonly head = "POST / HTTP/1.1\r\nHost: test\r\n";
  readonly repeat = "ifUnwritten";
  readonly answerMs = 5_000;
  /** The calls of the callbacks, in order. */
  readonly calls: string[] = [];
  readonly ended: Promise<UpstreamFailure | "done">;
  carrier: Http1Carrier | undefined;
  readonly #end: (how: UpstreamFailure | "done") => void;
  readonly #throwsIn: string | undefined;

  constructor(throwsIn?: "onHead" | "onData" | "onRead" | "onEnd" | "onError") {
    this.#throwsIn = throwsIn;
    const { promise, resolve } = Promise.withResolvers<UpstreamFailure | "done">();
    this.ended = promise;
    this.#end = resolve;
  }

  body(): string {
    return "{}";
  }

  onStart(carrier: Http1Carrier): void {
    this.carrier = carrier;
  }

  onHead(): void {
    this.#note("onHead", "head");
  }

  onData(bytes: Buffer, start: number, end: number): void {
    this.#note("onData", bytes.toString("latin1", start, end));
  }

  onRead(): void {
    this.#note("onRead", "read");
  }

  onEnd(): void {
    this.#end("done");
    this.#note("onEnd", "end");
  }

  onError(failure: UpstreamFailure): void {
    this.#end(failure);
    this.#note("onError", failure);
  }

  #note(callback: string, call: string): void {
    this.calls.push(call);
    if (callback === this.#throwsIn) throw new Error(`a bug in ${callback}`);
  }
}

const whole = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

test("an exchange receives the head, each piece of the body and the end, in order", async (t) => {
  const { client, request } = await open(t);
  const exchange = new TestExchange();
  client.send(exchange);
  const socket = await request();
  socket.write(
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n",
  );
  assert.equal(await exchange.ended, "done");
  assert.deepEqual(exchange.calls, ["head", "a", "b", "read", "end"]);
});

for (const callback of ["onHead", "onData", "onRead"] as const) {
  test(`an exception in ${callback} is reported and fails only its exchange`, async (t) => {
    const { client, bugs, request, connections } = await open(t);
    const other = new TestExchange();
    const exchange = new TestExchange(callback);
    client.send(other);
    const first = await request();
    client.send(exchange);
    (await request()).write(whole);
    assert.equal(await exchange.ended, "internal");
    assert.deepEqual(bugs.map(String), [`Error: a bug in ${callback}`]);
    first.write(whole);
    assert.equal(await other.ended, "done");
    assert.equal(connections(), 2);
  });
}

test("an exception in onEnd is reported, and the connection carries the next exchange", async (t) => {
  const { client, bugs, request, connections } = await open(t);
  const exchange = new TestExchange("onEnd");
  client.send(exchange);
  (await request()).write(whole);
  assert.equal(await exchange.ended, "done");
  const next = new TestExchange();
  client.send(next);
  (await request()).write(whole);
  assert.equal(await next.ended, "done");
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

test("abort closes the connection, and the exchange is not called any more", async (t) => {
  const { client, request } = await open(t);
  const exchange = new TestExchange();
  client.send(exchange);
  const socket = await request();
  const closed = once(socket, "close");
  exchange.carrier?.abort();
  await closed;
  assert.deepEqual(exchange.calls, []);
  assert.equal(client.inFlight, 0);
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
