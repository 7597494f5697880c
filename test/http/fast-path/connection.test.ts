import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import type { Exchange, Outcome, SurfaceHooks } from "../../../src/plugin.ts";
import { serve } from "../../pipeline/harness.ts";
import { cameFast, exchange, open, openSlow, readUntil, socketOf } from "./raw-requests.ts";

const request = (body: string, fields = ""): string =>
  `POST /x HTTP/1.1\r\nhost: a\r\n${fields}content-length: ${body.length}\r\n\r\n${body}`;
const close = "connection: close\r\n";

/** A surface that answers with the body, and records which way each request arrived. */
function echo(): { ways: boolean[]; surface: SurfaceHooks } {
  const ways: boolean[] = [];
  const surface: SurfaceHooks = {
    body: { bytes: 1_000_000 },
    answer: (x) => {
      ways.push(cameFast(x));
      return { status: 200, body: x.body ?? "" };
    },
  };
  return { ways, surface };
}

const answered = (body: string) => (text: string) => text.endsWith(`\r\n\r\n${body}`);

test("pipelined requests are answered in order, one after the other", async () => {
  const gates = new Map<string, PromiseWithResolvers<void>>();
  const begun: string[] = [];
  const surface: SurfaceHooks = {
    body: { bytes: 1000 },
    async answer(x) {
      const body = String(x.body);
      begun.push(body);
      const gate = Promise.withResolvers<void>();
      gates.set(body, gate);
      await gate.promise;
      return { status: 200, body };
    },
  };
  await using served = await serve([{ path: "/x", surface }]);
  const socket = await open(served.port);
  const all = exchange(socket, request("one") + request("two") + request("three", close));
  for (const body of ["one", "two", "three"]) {
    while (!gates.has(body)) await new Promise(setImmediate);
    assert.equal(begun.at(-1), body);
    gates.get(body)?.resolve();
  }
  assert.deepEqual((await all).match(/one|two|three/g), ["one", "two", "three"]);
});

test("pipelined requests above the limit wait in the kernel, and all are answered", async () => {
  const { ways, surface } = echo();
  await using served = await serve([{ path: "/x", surface }]);
  const body = "x".repeat(30_000);
  const answers = await exchange(
    await open(served.port),
    request(body).repeat(20) + request(body, close),
  );
  assert.equal(answers.length - answers.replaceAll("x", "").length, 21 * body.length);
  assert.equal(ways.length, 21);
});

/** Resolves when the server has read what was written: the kernel has accepted it, and the event loop has turned. */
async function bytesRead(port: number, socket: Awaited<ReturnType<typeof open>>): Promise<void> {
  if (socket.writableLength > 0) await once(socket, "drain");
  // A second connection is accepted and answered after that.
  await exchange(await open(port), `GET /healthz HTTP/1.1\r\nhost: a\r\n${close}\r\n`);
}

test("a request in many pieces is handed over to node:http, with all of its bytes", async () => {
  const { ways, surface } = echo();
  await using served = await serve([{ path: "/x", surface }]);
  const socket = await open(served.port);
  socket.setNoDelay(true);
  for (const piece of request("hello").match(/[^]{1,12}/g) ?? []) {
    socket.write(piece);
    await bytesRead(served.port, socket);
  }
  await readUntil(socket, answered("hello"));
  // The connection stays with node:http.
  socket.write(request("again"));
  await readUntil(socket, answered("again"));
  socket.destroy();
  assert.deepEqual(ways, [false, false]);
});

test("a connection can be handed over between two requests, and in the middle of pipelined ones", async () => {
  const { ways, surface } = echo();
  await using served = await serve([{ path: "/x", surface }]);
  const odd =
    "POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nodd\r\n0\r\n\r\n";
  const answers = await exchange(
    await open(served.port),
    request("one") + odd + request("two", close),
  );
  assert.deepEqual(answers.match(/one|odd|two/g), ["one", "odd", "two"]);
  assert.deepEqual(ways, [true, false, false]);
});

test("a large body is handed over to node:http before it has arrived, and so is 100 Continue", async () => {
  const { ways, surface } = echo();
  await using served = await serve([{ path: "/x", surface }]);
  const body = "y".repeat(100_000);
  const large = await exchange(await open(served.port), request(body, close));
  assert.ok(large.endsWith(body));
  const asked = await exchange(
    await open(served.port),
    request("hello", `${close}expect: 100-continue\r\n`),
  );
  assert.match(asked, /^HTTP\/1.1 100 Continue\r\n\r\nHTTP\/1.1 200 OK\r\n/);
  assert.deepEqual(ways, [false, false]);
});

test("a client that sends an empty line and leaves gets no answer, as from node:http", async () => {
  const { ways, surface } = echo();
  await using served = await serve([{ path: "/x", surface }]);
  for (const openWay of [open, openSlow]) {
    const socket = await openWay(served.port);
    socket.end("\r\n");
    assert.equal(await readUntil(socket, () => false), "");
  }
  assert.deepEqual(ways, []);
});

test("an idle connection is closed after keepAliveMs, a busy one is not", async () => {
  const gate = Promise.withResolvers<void>();
  const surface: SurfaceHooks = {
    async answer(x) {
      if (x.request.query === "wait") await gate.promise;
      return { status: 200, body: "done" };
    },
  };
  await using served = await serve([{ path: "/x", surface }], {
    server: { keepAliveMs: 20, headersMs: 500 },
  });
  const busy = await open(served.port);
  busy.write("GET /x?wait HTTP/1.1\r\nhost: a\r\n\r\n");
  const idle = await open(served.port);
  idle.write("GET /x HTTP/1.1\r\nhost: a\r\n\r\n");
  assert.match(await readUntil(idle, () => false), /done$/);
  gate.resolve();
  assert.match(await readUntil(busy, answered("done")), /^HTTP\/1.1 200 /);
  busy.destroy();
});

test("a truncated request gets 400 and is not served", async () => {
  const { ways, surface } = echo();
  await using served = await serve([{ path: "/x", surface }]);
  const socket = await open(served.port);
  socket.end(request("hello").slice(0, -2));
  assert.match(await readUntil(socket, () => false), /^HTTP\/1.1 400 /);
  assert.deepEqual(ways, []);
});

test("bytes after a request that ends the connection are not served", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const served: string[] = [];
  const surface: SurfaceHooks = {
    body: { bytes: 1000 },
    answer: (x) => {
      served.push(String(x.body));
      return { status: 200 };
    },
  };
  const step = {
    name: "watch",
    settled(x: Exchange) {
      if (served.length > 1) return;
      // Simulates bytes that the kernel delivers between the answer and the end of the connection.
      process.nextTick(() => {
        socketOf(x).emit("data", Buffer.from(request("two")));
        resolve();
      });
    },
  };
  await using gateway = await serve([{ path: "/x", steps: [step], surface }]);
  const answers = await exchange(await open(gateway.port), request("one", close));
  await promise;
  assert.equal(answers.match(/^HTTP/gm)?.length, 1);
  assert.deepEqual(served, ["one"]);
});

test("pipelined requests are not served after the client has ended its side", async () => {
  const served: string[] = [];
  let halfClosed = Promise.withResolvers<void>();
  const body = "x".repeat(8_000_000);
  const surface: SurfaceHooks = {
    body: { bytes: 1000 },
    answer: (x) => {
      served.push(String(x.body));
      socketOf(x).once("end", () => halfClosed.resolve());
      return { status: 200, body };
    },
  };
  await using gateway = await serve([{ path: "/x", surface }]);
  const odd = "GET /x HTTP/1.0\r\nhost: a\r\n\r\n";
  for (const next of [request("two"), odd]) {
    const socket = await open(gateway.port);
    socket.pause();
    halfClosed = Promise.withResolvers<void>();
    socket.end(request("one") + next);
    await halfClosed.promise;
    const answer = await readUntil(socket.resume(), () => false);
    assert.ok(answer.endsWith(`\r\n\r\n${body}`));
  }
  assert.deepEqual(served, ["one", "one"]);
  assert.deepEqual(gateway.errors, []);
});

test("a client that pipelines and does not read small answers is cut off", async () => {
  const outcomes: Outcome[] = [];
  const cut = Promise.withResolvers<void>();
  const surface: SurfaceHooks = { answer: () => ({ status: 200, body: "x".repeat(60_000) }) };
  const step = {
    name: "watch",
    settled(_: Exchange, outcome: Outcome) {
      outcomes.push(outcome);
      if (outcome !== "complete") cut.resolve();
    },
  };
  await using served = await serve([{ path: "/x", steps: [step], surface }], {
    server: { bodyIdleMs: 50 },
  });
  const socket = await open(served.port);
  socket.pause();
  socket.write(request("hello").repeat(500));
  await cut.promise;
  assert.equal(outcomes.at(-1), "timedOut");
  socket.destroy();
});

test("every pipelined exchange is notified when the client leaves, also over node:http", async () => {
  const outcomes: Outcome[] = [];
  const settled = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  let count = 0;
  const surface: SurfaceHooks = {
    body: { bytes: 1000 },
    async answer(x) {
      if (++count === 3) begun.resolve();
      const body = String(x.body);
      if (body === "now") return { status: 200 };
      if (body === "stream") await (await x.stream(200, [])).end();
      else await once(x.signal, "abort");
      return undefined;
    },
  };
  const step = {
    name: "watch",
    settled(_: Exchange, outcome: Outcome) {
      if (outcomes.push(outcome) === 3) settled.resolve();
    },
  };
  await using served = await serve([{ path: "/x", steps: [step], surface }]);
  const socket = await openSlow(served.port);
  socket.write(request("never") + request("now") + request("stream"));
  await begun.promise;
  socket.destroy();
  await settled.promise;
  assert.deepEqual(outcomes, ["clientLeft", "clientLeft", "clientLeft"]);
});

test("if an answer fails before its turn, the connection ends when its turn comes, also over node:http", async () => {
  const cutOff = Promise.withResolvers<void>();
  const outcomes: Outcome[] = [];
  const settled = Promise.withResolvers<void>();
  const surface: SurfaceHooks = {
    body: { bytes: 1000 },
    async answer(x) {
      const body = String(x.body);
      if (body === "one") await cutOff.promise;
      if (body !== "two") return { status: 200, body };
      (await x.stream(200, [])).fail("upstreamFailed");
      return undefined;
    },
  };
  const step = {
    name: "watch",
    settled(_: Exchange, outcome: Outcome) {
      if (outcome === "upstreamFailed") cutOff.resolve();
      if (outcomes.push(outcome) === 3) settled.resolve();
    },
  };
  await using served = await serve([{ path: "/x", steps: [step], surface }]);
  const socket = await openSlow(served.port);
  const answers = await exchange(socket, request("one") + request("two") + request("three"));
  assert.match(answers, /^HTTP\/1.1 200 OK\r\n.*\r\n\r\none$/s);
  await settled.promise;
  assert.deepEqual(outcomes, ["upstreamFailed", "complete", "clientLeft"]);
});

test("a stream to a client that does not read is paused, then cut off", async () => {
  const outcomes: Outcome[] = [];
  const settled = Promise.withResolvers<void>();
  const surface: SurfaceHooks = {
    async answer(x) {
      const sink = await x.stream(200, []);
      const chunk = "z".repeat(64 * 1024);
      const pump = (): void => {
        while (sink.write(chunk));
      };
      sink.onDrain = pump;
      pump();
      const { promise, resolve } = Promise.withResolvers<void>();
      x.onAbort = { aborted: resolve };
      await promise;
      return undefined;
    },
  };
  const step = {
    name: "watch",
    settled(_: Exchange, outcome: Outcome) {
      outcomes.push(outcome);
      settled.resolve();
    },
  };
  await using served = await serve([{ path: "/x", steps: [step], surface }], {
    server: { bodyIdleMs: 50 },
  });
  const socket = await open(served.port);
  socket.pause();
  socket.write(request("hello"));
  await settled.promise;
  assert.deepEqual(outcomes, ["timedOut"]);
  socket.destroy();
});
