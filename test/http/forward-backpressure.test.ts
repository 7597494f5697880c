import assert from "node:assert/strict";
import { request, type IncomingMessage } from "node:http";
import { test } from "node:test";
import {
  httpUpstream,
  whenStable,
  rawClient,
  startForwardingGateway,
} from "./forwarding-gateway.ts";

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
