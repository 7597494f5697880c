/** HTTP/2 in front of upstreams, and WebSockets next to it. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { connect } from "node:http2";
import { join } from "node:path";
import { test } from "node:test";
import { startTestGateway } from "sluice-gateway/testing";
import { WebSocket } from "ws";
import { cert, key } from "../../certificate.ts";
import { read, send, serveTls } from "./client.ts";

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
