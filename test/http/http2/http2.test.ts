/** HTTP/2: requests and responses, in front of upstreams, and next to WebSockets. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { constants, connect } from "node:http2";
import { join } from "node:path";
import { test } from "node:test";
import { startTestGateway } from "sluice-gateway/testing";
import { WebSocket } from "ws";
import type { Exchange, Sink } from "../../../src/plugin.ts";
import { cert, key } from "../../certificate.ts";
import { read, send, serveTls } from "./client.ts";

test("a request over HTTP/2 runs its steps, and its response has the fields of the surface", async (t) => {
  const seen: string[] = [];
  await using served = await serveTls(
    t,
    ({ request: { method, path, query, address } }) => {
      seen.push(`${method} ${path} ${query} ${address}`);
      return {
        status: 201,
        headers: [
          "X-A",
          "1",
          "x-a",
          "2",
          "set-cookie",
          "a=b",
          "set-cookie",
          "c=d",
          "Connection",
          "x",
        ],
        body: "hello",
      };
    },
    { steps: [{ name: "seen", requestHeaders: () => void seen.push("step") }] },
  );
  const session = await served.connect();
  const answer = await send(session, { ":path": "/x?q=1" });
  assert.deepEqual(seen, ["step", "GET /x q=1 127.0.0.1"]);
  assert.equal(answer.status, 201);
  assert.equal(answer.body, "hello");
  assert.equal(answer.headers["x-a"], "1, 2");
  assert.deepEqual(answer.headers["set-cookie"], ["a=b", "c=d"]);
  assert.equal(answer.headers["connection"], undefined);
  assert.equal(answer.code, 0);
  assert.equal((await send(session, { ":path": "/healthz" })).status, 200);
  assert.deepEqual(served.errors, []);
});

test("plugins see the head in the form of HTTP/1.1", async (t) => {
  let seen: readonly string[] = [];
  await using served = await serveTls(t, ({ request: { rawHeaders, headers, hasBody } }) => {
    seen = rawHeaders;
    return { status: 200, body: `${headers.host} ${headers.cookie} ${hasBody}` };
  });
  const session = await served.connect();
  const host = `127.0.0.1:${served.port}`;
  const { body } = await send(session, { ":path": "/", cookie: ["a=1", "b=2"], "x-b": "c" });
  assert.equal(body, `${host} a=1; b=2 false`);
  assert.deepEqual(seen, ["host", host, "cookie", "a=1; b=2", "x-b", "c"]);
  await send(session, { ":path": "/", ":method": "POST" }, "unknown length");
  assert.deepEqual(seen, ["host", host, "transfer-encoding", "chunked"]);
});

for (const withLength of [true, false]) {
  test(`a large body arrives whole, ${withLength ? "with" : "without"} its length`, async (t) => {
    await using served = await serveTls(t, ({ body }) => ({ status: 200, body: body ?? "" }), {
      surface: { body: { bytes: 4_000_000, types: ["text/plain"] } },
    });
    const session = await served.connect();
    const body = Buffer.alloc(3_000_000, "0123456789");
    const length = withLength ? { "content-length": String(body.length) } : {};
    const headers = { ":path": "/", ":method": "POST", "content-type": "text/plain", ...length };
    const answer = await send(session, headers, body);
    assert.equal(answer.status, 200);
    assert.equal(answer.body, body.toString());
    const small = await send(session, headers, withLength ? body : "small");
    assert.equal(small.status, 200);
  });
}

test("a body above the limit is answered with 413, and the connection remains", async (t) => {
  await using served = await serveTls(t, ({ body }) => ({ status: 200, body: body ?? "" }), {
    surface: { body: { bytes: 1_000, types: ["text/plain"] } },
  });
  const session = await served.connect();
  const headers = { ":path": "/", ":method": "POST", "content-type": "text/plain" };
  const { status } = await send(session, headers, Buffer.alloc(500_000));
  assert.equal(status, 413);
  assert.equal((await send(session, headers, "small")).status, 200);
});

test("chunks arrive as they are written, and announced trailers follow", async (t) => {
  const sinks: Sink[] = [];
  const opened = Promise.withResolvers<void>();
  await using served = await serveTls(t, async (x) => {
    const sink = await x.stream(200, ["content-type", "text/event-stream", "trailer", "x-sum"]);
    sinks.push(sink);
    sink.write("data: a\n\n");
    opened.resolve();
    return undefined;
  });
  const session = await served.connect();
  const stream = session.request({ ":path": "/" });
  const [first] = (await once(stream, "data")) as [Buffer];
  assert.equal(first.toString(), "data: a\n\n");
  await opened.promise;
  const rest = read(stream);
  await sinks[0]?.end(["x-sum", "1"], Buffer.from("data: b\n\n"));
  const { body, code, trailers } = await rest;
  assert.equal(body, "data: b\n\n");
  assert.equal(trailers["x-sum"], "1");
  assert.equal(code, 0);
});

test("a response that fails midway is reset, and does not look complete", async (t) => {
  await using served = await serveTls(t, async (x) => {
    const sink = await x.stream(200, []);
    sink.write("half");
    setImmediate(() => sink.fail("upstreamFailed"));
    return undefined;
  });
  const session = await served.connect();
  const { code } = await send(session, { ":path": "/" });
  assert.notEqual(code, 0);
  assert.equal(session.destroyed, false);
});

test("a client that resets its stream aborts the exchange, and the connection remains", async (t) => {
  const started = Promise.withResolvers<Exchange>();
  const settled = Promise.withResolvers<unknown>();
  await using served = await serveTls(
    t,
    async (x) => {
      if (x.request.path === "/next") return { status: 200 };
      started.resolve(x);
      const { promise, resolve } = Promise.withResolvers<void>();
      x.signal.addEventListener("abort", () => resolve());
      await promise;
      return undefined;
    },
    { steps: [{ name: "ends", settled: (_, outcome) => settled.resolve(outcome) }] },
  );
  const session = await served.connect();
  const stream = session.request({ ":path": "/" });
  stream.on("error", () => {});
  await started.promise;
  stream.close(constants.NGHTTP2_CANCEL);
  assert.equal(await settled.promise, "clientLeft");
  assert.equal((await send(session, { ":path": "/next" })).status, 200);
  assert.equal(served.listener.running, 0);
});

test("HEAD, 204 and 304 have no body", async (t) => {
  await using served = await serveTls(t, ({ request: { path } }) => ({
    status: Number(path.slice(1)),
    body: path === "/200" ? "body" : "",
  }));
  const session = await served.connect();
  for (const [method, status] of [
    ["HEAD", 200],
    ["GET", 204],
    ["GET", 304],
  ] as const) {
    const answer = await send(session, { ":path": `/${status}`, ":method": method });
    assert.deepEqual([answer.status, answer.body, answer.code], [status, "", 0]);
  }
  assert.equal(served.listener.running, 0);
});

test("a client that waits for 100 Continue gets it when the body is read", async (t) => {
  await using served = await serveTls(t, ({ body }) => ({ status: 200, body: body ?? "" }), {
    surface: { body: { bytes: 1_000, types: ["text/plain"] } },
  });
  const session = await served.connect();
  const fields = { "content-type": "text/plain", expect: "100-continue" };
  const stream = session.request({ ":path": "/", ":method": "POST", ...fields });
  await once(stream, "continue");
  stream.end("now");
  const { status, body } = await read(stream);
  assert.deepEqual([status, body], [200, "now"]);
  const other = await send(session, { ":path": "/", expect: "something" });
  assert.equal(other.status, 417);
});

test("a drain lets running requests finish, announces the end and closes", async (t) => {
  const sinks: Sink[] = [];
  const opened = Promise.withResolvers<void>();
  await using served = await serveTls(t, async (x) => {
    if (x.request.path === "/late") return { status: 200, body: "late" };
    const sink = await x.stream(200, []);
    sinks.push(sink);
    sink.write("a");
    opened.resolve();
    return undefined;
  });
  const session = await served.connect();
  const idle = await served.connect();
  const stream = session.request({ ":path": "/" });
  await opened.promise;
  const leaving = once(session, "goaway");
  const idleClosed = once(idle, "close");
  served.listener.beginDrain();
  await leaving;
  const answer = read(stream);
  const closing = served.listener.close(5_000);
  await idleClosed;
  await sinks[0]?.end(undefined, Buffer.from("b"));
  const { body, code } = await answer;
  assert.deepEqual([body, code], ["ab", 0]);
  await closing;
  assert.equal(served.listener.running, 0);
});

test("a stop cuts the requests that do not finish in time", async (t) => {
  const opened = Promise.withResolvers<void>();
  await using served = await serveTls(t, async (x) => {
    const sink = await x.stream(200, []);
    sink.write("a");
    opened.resolve();
    return undefined;
  });
  const session = await served.connect();
  const answer = read(session.request({ ":path": "/" }));
  await opened.promise;
  await served.listener.close(50);
  await answer;
  assert.equal(served.listener.running, 0);
});

const pipeline = `version: 1
server: { port: "\${PORT}", tls: { cert: ./tls.crt, key: ./tls.key } }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
upstreams: { app: { urls: "\${APP_URL}" } }
routes:
  - path: /*
    methods: ["*"]
    run: [request-id, access-log, authenticate, rate-limit, { authorize: { require: key } }, { meter: { price: 7 } }]
    to: { forward: { upstream: app, bodyBytes: 0 } }
`;

test("a body is streamed to an upstream, and the response back, with keys and charges", async (t) => {
  const seen: string[] = [];
  const app = createServer((req, res) => {
    const hash = createHash("sha256");
    seen.push(`${req.httpVersion} ${req.method} ${req.headers["transfer-encoding"]}`);
    seen.push(String(req.headers["x-forwarded-proto"]));
    req.on("data", (bytes: Buffer) => hash.update(bytes));
    req.on("end", () => {
      res.writeHead(200, { trailer: "x-sum" });
      res.write("sum ");
      res.addTrailers({ "x-sum": "done" });
      res.end(hash.digest("hex"));
    });
  });
  app.listen(0, "127.0.0.1");
  await once(app, "listening");
  t.after(() => app.close());
  const address = app.address();
  assert.ok(typeof address === "object" && address !== null);
  await using gateway = await startTestGateway({
    pipeline,
    env: { APP_URL: `http://127.0.0.1:${address.port}` },
    prepare(folder) {
      writeFileSync(join(folder, "tls.crt"), cert);
      writeFileSync(join(folder, "tls.key"), key);
    },
  });
  const session = connect(gateway.url, { ca: cert });
  t.after(() => session.destroy());
  const headers = { ":path": "/upload", ":method": "POST", te: "trailers" };
  const authorization = `Bearer ${gateway.key}`;
  const body = Buffer.alloc(2_000_000, "sluice");
  const answer = await send(session, { ...headers, authorization }, body);
  const sum = createHash("sha256").update(body).digest("hex");
  assert.deepEqual([answer.status, answer.body, answer.code], [200, `sum ${sum}`, 0]);
  assert.equal(answer.trailers["x-sum"], "done");
  assert.deepEqual(seen, ["1.1 POST chunked", "https"]);
  assert.equal((await send(session, headers, "body")).status, 401);

  // A client that leaves in the middle of its upload.
  const stream = session.request({ ...headers, authorization });
  stream.write("half");
  const reset = read(stream);
  await once(app, "request");
  stream.close(8);
  await reset;
  assert.equal((await send(session, { ...headers, authorization }, body)).status, 200);
});

test("WebSockets and HTTP/2 share a port", async (t) => {
  await using served = await serveTls(
    t,
    async (x) => {
      const connection = await x.accept({ protocol: "test.v1", messageBytes: 1024 });
      const { promise, resolve } = Promise.withResolvers<void>();
      connection.onClose = () => resolve();
      connection.send("hello");
      await promise;
      return undefined;
    },
    { websocket: true },
  );
  const client = new WebSocket(`wss://127.0.0.1:${served.port}/`, "test.v1", { ca: cert });
  const [message] = (await once(client, "message")) as [Buffer];
  assert.equal(message.toString(), "hello");
  client.close();
  await once(client, "close");
  const session = await served.connect();
  assert.equal((await send(session, { ":path": "/" })).status, 426);
});
