/** Whole bodies whose requests wait for a backend count until they are released, and a dearer caller makes room. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { request, type ClientRequest, type IncomingMessage } from "node:http";
import { test } from "node:test";
import { createMetrics } from "../../src/base/metrics.ts";
import type { Exchange, Reply } from "../../src/plugin.ts";
import { ask, serve, type Served, type TestStep } from "../pipeline/harness.ts";

const mebibyte = 1 << 20;

const identify: TestStep = {
  name: "identify",
  requestHeaders(x: Exchange) {
    const id = String(x.request.headers["x-key"]);
    x.note("caller", { id, group: "ws_1", burst: 100, isOperator: false });
  },
};

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

interface Bench extends AsyncDisposable {
  readonly served: Served;
  ask(key: string, path: string, bytes?: number): Asked;
  held(kind: "request" | "body"): number;
  holds(bytes: number): Promise<void>;
}

async function bench(released: Promise<undefined> = Promise.resolve(undefined)): Promise<Bench> {
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
  const held: Bench["held"] = (kind) =>
    metrics.read("sluice_held_bytes").find(({ labels }) => labels["kind"] === kind)?.value ?? NaN;
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
  await using gateway = await bench();
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
  await using gateway = await bench();
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
  await using gateway = await bench(promise);
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
  await using gateway = await bench();
  for (let count = 0; count < 6; count++) gateway.ask("a", "/dropping");
  while (gateway.served.listener.running < 6) await new Promise(setImmediate);
  await gateway.holds(0);
  assert.equal(await gateway.ask("a", "/sized").status, 200);
});
