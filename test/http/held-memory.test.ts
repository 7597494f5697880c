/** Memory held for clients: unread answers, with the pace at which they must be read, and whole bodies that wait. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { request, type ClientRequest, type IncomingMessage } from "node:http";
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
    x.note("caller", { id: String(id), group: "ws_1", burst: 100, isOperator: false });
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

function heldBytes(metrics: RenderedMetrics, kind: string): number {
  const samples = metrics.read("sluice_held_bytes");
  return samples.find(({ labels }) => labels["kind"] === kind)?.value ?? NaN;
}

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
    held: () => heldBytes(metrics, "answer"),
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

/** Never answers. It returns when it is aborted. */
const silent = {
  body: { bytes: 10 * mebibyte },
  answer: (x: Exchange): Promise<undefined> =>
    new Promise((resolve) => {
      x.onAbort = { aborted: () => resolve(undefined) };
    }),
};

/** Like `silent`, but it does not stop for an abort. */
function stubborn(released: Promise<undefined>): typeof silent {
  return { ...silent, answer: () => released };
}

const dropping = {
  ...silent,
  answer(x: Exchange): Promise<undefined> {
    x.dropBody();
    return silent.answer(x);
  },
};

const sized = {
  body: { bytes: 10 * mebibyte },
  answer: (x: Exchange): Reply => ({ status: 200, body: String(x.body?.length) }),
};

interface Asked {
  readonly sent: ClientRequest;
  /** The status of the answer. Undefined if the connection was cut. */
  readonly status: Promise<number | undefined>;
}

interface BodiesBench extends AsyncDisposable {
  readonly served: Served;
  ask(key: string, path: string, bytes?: number): Asked;
  held(kind: "request" | "body"): number;
  holds(bytes: number): Promise<void>;
}

async function bodiesBench(
  released: Promise<undefined> = Promise.resolve(undefined),
): Promise<BodiesBench> {
  const metrics = createMetrics();
  const steps = [identify];
  const served = await serve(
    [
      { path: "/silent", steps, surface: silent },
      { path: "/stubborn", steps, surface: stubborn(released) },
      { path: "/dropping", steps, surface: dropping },
      { path: "/sized", steps, surface: sized },
    ],
    { metrics, server: { unfinishedBodyBytes: 8 * mebibyte } },
  );
  const all: ClientRequest[] = [];
  const held: BodiesBench["held"] = (kind) => heldBytes(metrics, kind);
  return {
    served,
    held,
    ask(key, path, bytes = mebibyte) {
      const headers = { "x-key": key, "content-length": bytes };
      const sent = request(`${served.url}${path}`, { method: "POST", headers, agent: false });
      all.push(sent);
      const status = once(sent, "response").then(
        ([response]) => {
          const { statusCode } = (response as IncomingMessage).resume();
          return statusCode;
        },
        () => undefined,
      );
      sent.on("error", () => {});
      sent.end(Buffer.alloc(bytes, "x"));
      return { sent, status };
    },
    async holds(bytes) {
      while (held("request") !== bytes || held("body") !== 0) await new Promise(setImmediate);
    },
    async [Symbol.asyncDispose]() {
      for (const sent of all) sent.destroy();
      await served[Symbol.asyncDispose]();
    },
  };
}

test("a key whose requests wait gets 429 at half of the bound; others are served, and nothing stays counted", async () => {
  await using gateway = await bodiesBench();
  const waiting: Asked[] = [];
  for (let count = 1; count <= 4; count++) {
    waiting.push(gateway.ask("a", "/silent"));
    await gateway.holds(count * mebibyte);
  }
  assert.equal(await gateway.ask("a", "/silent").status, 429);
  assert.equal(await gateway.ask("b", "/sized", 2 * mebibyte).status, 200);
  assert.equal((await ask(gateway.served, "/healthz")).status, 200);
  await gateway.holds(4 * mebibyte);
  for (const { sent } of waiting) sent.destroy();
  await gateway.holds(0);
});

test("when all keys together reach the bound, the newest request of the dearest is cut", async () => {
  await using gateway = await bodiesBench();
  const dear: Asked[] = [];
  for (let count = 1; count <= 4; count++) {
    dear.push(gateway.ask("a", "/silent"));
    await gateway.holds(count * mebibyte);
  }
  for (let count = 1; count <= 3; count++) {
    gateway.ask("b", "/silent");
    await gateway.holds((4 + count) * mebibyte);
  }
  assert.equal(await gateway.ask("c", "/sized", 2 * mebibyte).status, 200);
  assert.equal(await dear[3]?.status, undefined);
  await gateway.holds(6 * mebibyte);
});

test("the body of a surface that ignores the abort counts until the surface returns", async () => {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  await using gateway = await bodiesBench(promise);
  for (const key of ["a", "b"]) {
    const before = gateway.held("request");
    const { sent } = gateway.ask(key, "/stubborn", 4 * mebibyte);
    await gateway.holds(before + 4 * mebibyte);
    sent.destroy();
  }
  assert.equal(await gateway.ask("c", "/sized").status, 503);
  await gateway.holds(8 * mebibyte);
  resolve(undefined);
  await gateway.holds(0);
  assert.equal(await gateway.ask("c", "/sized").status, 200);
});

test("a body that the surface has dropped does not count", async () => {
  await using gateway = await bodiesBench();
  for (let count = 0; count < 6; count++) gateway.ask("a", "/dropping");
  while (gateway.served.listener.running < 6) await new Promise(setImmediate);
  await gateway.holds(0);
  assert.equal(await gateway.ask("a", "/sized").status, 200);
});
