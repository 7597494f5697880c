/** Answers that wait for their reader: their memory, and the pace at which they must be read. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { test } from "node:test";
import { createMetrics, type RenderedMetrics } from "../../src/base/metrics.ts";
import type { Exchange, Reply } from "../../src/plugin.ts";
import { manualClock, type ManualClock } from "../../src/testing/clock.ts";
import { ask, serve, type Served, type TestStep } from "../pipeline/harness.ts";

const mebibyte = 1024 * 1024;
/** More than the kernel buffers for a client that does not read. */
const large = Buffer.alloc(24 * mebibyte, "0123456789abcdef");

const identify: TestStep = {
  name: "identify",
  requestHeaders(x: Exchange) {
    const { "x-key": id } = x.request.headers;
    if (id === undefined) return;
    x.note("caller", { id: String(id), group: "ws_1", burst: 4, isOperator: false });
  },
};

const pieces: readonly Buffer[] = [
  Buffer.from("["),
  large,
  Buffer.from(","),
  large.subarray(0, mebibyte),
  Buffer.from("]"),
];
const answers: Readonly<Record<string, Reply>> = {
  bytes: { status: 200, body: large },
  text: { status: 200, body: `é${large.toString("latin1")}` },
  ascii: { status: 200, body: large.toString("latin1") },
  pieces: { status: 200, pieces },
};

interface Bench extends AsyncDisposable {
  readonly clock: ManualClock;
  readonly served: Served;
  readonly metrics: RenderedMetrics;
  held(): number;
  /** Sends a request and reads nothing of its answer. */
  leave(key: string, answer?: string): Promise<Socket>;
}

async function bench(unfinishedBodyBytes = 256 * mebibyte): Promise<Bench> {
  const clock = manualClock();
  const metrics = createMetrics();
  const surface = { answer: (x: Exchange) => answers[x.request.path.slice(1)] ?? { status: 404 } };
  const served = await serve([{ path: "/*", steps: [identify], surface }], {
    clock,
    metrics,
    server: { bodyIdleMs: 30_000, unfinishedBodyBytes },
  });
  const sockets: Socket[] = [];
  return {
    clock,
    served,
    metrics,
    held: () =>
      metrics.read("sluice_held_bytes").find(({ labels }) => labels["kind"] === "answer")?.value ??
      NaN,
    async leave(key, answer = "bytes") {
      const socket = connect(served.port, "127.0.0.1");
      sockets.push(socket);
      socket.on("error", () => {});
      socket.pause();
      await once(socket, "connect");
      socket.write(`GET /${answer} HTTP/1.1\r\nhost: a\r\nx-key: ${key}\r\n\r\n`);
      return socket;
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await served[Symbol.asyncDispose]();
    },
  };
}

const until = async (isTrue: () => boolean): Promise<void> => {
  while (!isTrue()) await new Promise(setImmediate);
};

for (const path of ["bytes", "text", "ascii", "pieces"]) {
  test(`a large answer arrives as it was given: ${path}`, async () => {
    await using gateway = await bench();
    // The second form is answered by node:http.
    const forms: Record<string, string>[] = [{}, { connection: "close, x" }];
    for (const headers of forms) {
      const { status, body } = await ask(gateway.served, `/${path}`, { headers });
      assert.equal(status, 200);
      const { body: text = Buffer.concat(pieces) } = answers[path] ?? {};
      assert.ok(Buffer.from(body).equals(Buffer.from(text)));
    }
    await until(() => gateway.held() === 0);
  });
}

test("the bytes of an answer count until the client has taken them", async () => {
  await using gateway = await bench();
  const socket = await gateway.leave("a");
  await until(() => gateway.held() > 0);
  assert.ok(gateway.held() < large.length);
  socket.resume();
  await until(() => gateway.held() === 0);
});

test("a client that takes a few bytes from time to time is cut off", async () => {
  await using gateway = await bench();
  const socket = await gateway.leave("a");
  await until(() => gateway.held() > 0);
  for (let second = 0; second < 29; second++) {
    socket.read(1);
    gateway.clock.advance(1_000);
  }
  assert.equal(gateway.served.listener.running, 1);
  gateway.clock.advance(2_000);
  await until(() => gateway.served.listener.running === 0);
  assert.equal(gateway.held(), 0);
});

test("a client that reads steadily may take its time", async () => {
  await using gateway = await bench();
  const socket = await gateway.leave("a");
  await until(() => gateway.held() > 0);
  let read = 0;
  socket.on("data", (chunk: Buffer) => {
    read += chunk.length;
    socket.pause();
  });
  while (read < large.length) {
    const before = gateway.held();
    while (gateway.held() === before && read < large.length) {
      socket.resume();
      await new Promise(setImmediate);
    }
    gateway.clock.advance(1_000);
  }
  await until(() => gateway.served.listener.running === 0);
});

test("one key's unread answers hold at most half of the bound, and other keys are served", async () => {
  await using gateway = await bench(64 * mebibyte);
  for (let count = 0; count < 6; count++) await gateway.leave("a");
  const refused = (): number =>
    gateway.metrics
      .read("sluice_held_refusals_total")
      .find(({ labels }) => labels["kind"] === "answer" && labels["limit"] === "owner")?.value ?? 0;
  await until(() => refused() >= 4);
  assert.ok(gateway.held() <= 32 * mebibyte);
  const other = await ask(gateway.served, "/bytes", { headers: { "x-key": "b" } });
  assert.equal(other.body.length, large.length);
});

test("when all keys together hold too much, with one answer each, the newest is cut", async () => {
  await using gateway = await bench(70 * mebibyte);
  const first = await gateway.leave("dear", "text");
  await until(() => gateway.held() > 0);
  const one = gateway.held();
  const mib = (bytes: number): number => Math.round(bytes / mebibyte);
  assert.ok(mib(one) > 15, `${mib(one)} MiB`);
  for (const key of ["b", "c"]) {
    const before = gateway.held();
    await gateway.leave(key);
    await until(() => gateway.held() > before);
  }
  assert.equal(gateway.served.listener.running, 3);
  await gateway.leave("d");
  await until(() =>
    gateway.metrics.read("sluice_held_refusals_total").some(({ value }) => value > 0),
  );
  await until(() => gateway.served.listener.running === 3);
  assert.equal(first.destroyed, false);
});
