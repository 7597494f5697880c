/** Tests `forward` with unusual upstreams: https, early answers, hostile trailers, interim responses, and slow readers. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { request, type IncomingMessage } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { cert, key } from "../certificate.ts";
import { ask } from "../pipeline/harness.ts";
import {
  httpUpstream,
  rawClient,
  rawUpstream,
  startForwardingGateway,
  whenStable,
} from "./forwarding-gateway.ts";

test("https: requests, streamed bodies and answers pass, if the certificate is trusted", async () => {
  const server = createServer({ key, cert }, (req, res) => void req.pipe(res));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  // A listening TCP server has an AddressInfo.
  const { port } = server.address() as AddressInfo;
  await using gateway = await startForwardingGateway(port, { origin: "https://localhost" });
  const before = getCACertificates("default");
  assert.equal((await ask(gateway, "/", { method: "POST", body: "a" })).status, 503);
  setDefaultCACertificates([...before, cert]);
  try {
    using client = rawClient(gateway.port);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
    await client.until("one");
    client.send("3\r\ntwo\r\n0\r\n\r\n");
    await client.until("two");
    assert.match(await client.until("0\r\n\r\n"), /^HTTP\/1\.1 200 /);
  } finally {
    setDefaultCACertificates(before);
    server.close();
  }
});

test("trailers that frame, authenticate or set cookies do not reach the client", async () => {
  await using upstream = await rawUpstream((socket) => {
    socket.write(
      "HTTP/1.1 200 OK\r\nTrailer: x-sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
    );
    socket.write("0\r\nX-Sum: 1\r\nSet-Cookie: a=b\r\nContent-Length: 99\r\nConnection: x\r\n\r\n");
  });
  await using gateway = await startForwardingGateway(upstream.port);
  const { body, headers, trailers } = await ask(gateway, "/");
  assert.deepEqual([body, headers["trailer"]], ["ok", "x-sum"]);
  assert.deepEqual({ ...trailers }, { "x-sum": "1" });
});

test("a POST without content announces that, a DELETE does not", async () => {
  await using upstream = await httpUpstream((req, res) => {
    res.end(JSON.stringify(req.headers["content-length"] ?? null));
  });
  await using gateway = await startForwardingGateway(upstream.port);
  assert.equal((await ask(gateway, "/", { method: "POST" })).body, '"0"');
  assert.equal((await ask(gateway, "/", { method: "DELETE" })).body, "null");
});

test("a plugin that forwards to an impossible target gets a 400, and nothing is sent", async () => {
  await using upstream = await httpUpstream((_, res) => void res.end());
  for (const target of ["/a b", "/a\r\nX: y", "/\u010d", "no-path", ""]) {
    await using gateway = await startForwardingGateway(upstream.port, { target });
    const { status, body } = await ask(gateway, "/");
    assert.equal(status, 400, target);
    assert.match(body, /"error_code":"GATEWAY_INVALID_PARAMS"/);
  }
  assert.equal(upstream.sockets.length, 0);
});

const mebibyte = 1024 * 1024;
const chunk = Buffer.alloc(64 * 1024, "x");
const chunks = 1024;
/** The kernel's buffers and the streams of both processes hold at most this much. The whole body has 64 MiB. */
const inFlightBytes = 24 * mebibyte;

test("a client that does not read pauses the upstream, and gets the whole body when it reads", async () => {
  let written = 0;
  await using upstream = await httpUpstream((_, res) => {
    res.writeHead(200, { "content-length": chunk.length * chunks });
    const push = (): void => {
      while (written < chunks) {
        written++;
        if (!res.write(chunk)) return void res.once("drain", push);
      }
      res.end();
    };
    push();
  });
  await using gateway = await startForwardingGateway(upstream.port);
  const req = request({ port: gateway.port, host: "127.0.0.1", agent: false }).end();
  const res = await new Promise<IncomingMessage>((resolve) => req.on("response", resolve));
  const held = await whenStable(() => written);
  assert.ok(held * chunk.length < inFlightBytes, `${held * chunk.length} bytes in flight`);
  let read = 0;
  for await (const part of res as AsyncIterable<Buffer>) read += part.length;
  assert.equal(read, chunk.length * chunks);
  await gateway.settled(1);
  assert.deepEqual(gateway.outcomes, ["complete"]);
});

test("an upstream that does not read pauses the client's upload, and gets the whole body when it reads", async () => {
  const { promise: arrived, resolve: arrive } = Promise.withResolvers<IncomingMessage>();
  let received = 0;
  await using upstream = await httpUpstream((req, res) => {
    arrive(req);
    req.on("end", () => res.end("done"));
  });
  await using gateway = await startForwardingGateway(upstream.port);
  let written = 0;
  const req = request({ port: gateway.port, host: "127.0.0.1", method: "POST", agent: false });
  req.setHeader("content-length", chunk.length * chunks);
  const push = (): void => {
    while (written < chunks) {
      written++;
      if (!req.write(chunk)) return void req.once("drain", push);
    }
    req.end();
  };
  push();
  const upload = await arrived;
  const held = await whenStable(() => written);
  assert.ok(held * chunk.length < inFlightBytes, `${held * chunk.length} bytes in flight`);
  upload.on("data", (part: Buffer) => (received += part.length));
  const res = await new Promise<IncomingMessage>((resolve) => req.on("response", resolve));
  res.resume();
  assert.equal(received, chunk.length * chunks);
  await gateway.settled(1);
  assert.deepEqual(gateway.outcomes, ["complete"]);
});

test("an upstream that is paused because of its client does not time out", async () => {
  await using upstream = await httpUpstream((req, res) => {
    res.writeHead(200, { "content-length": chunk.length * chunks });
    if (req.url === "/silent") res.write("half");
    else res.end(Buffer.alloc(chunk.length * chunks));
  });
  await using gateway = await startForwardingGateway(upstream.port, { idleMs: 20 });
  using client = rawClient(gateway.port);
  client.socket.pause();
  client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  await whenStable(() => upstream.sockets[0]?.bytesWritten ?? 0);
  // When an upstream that is silent by itself has been cut off, the time limit of the paused one has passed as well.
  using other = rawClient(gateway.port);
  other.send("GET /silent HTTP/1.1\r\nHost: a\r\n\r\n");
  await other.closed();
  await gateway.settled(1);
  assert.deepEqual(gateway.outcomes, ["timedOut"]);
  client.socket.resume();
  assert.ok((await client.closed()).length > chunk.length * chunks);
  await gateway.settled(2);
  assert.deepEqual(gateway.outcomes, ["timedOut", "complete"]);
});
