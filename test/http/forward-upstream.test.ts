/** Tests `forward` with unusual upstreams: https, early answers, hostile trailers and interim responses. */
import assert from "node:assert/strict";
import { once } from "node:events";
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
  const { body, trailers } = await ask(gateway, "/");
  assert.equal(body, "ok");
  assert.deepEqual({ ...trailers }, { "x-sum": "1" });
});

test("an upstream that sends interim responses without end is a 503", async () => {
  await using upstream = await rawUpstream((socket) => {
    socket.write("HTTP/1.1 103 Early Hints\r\n\r\n".repeat(3_000));
  });
  await using gateway = await startForwardingGateway(upstream.port);
  assert.equal((await ask(gateway, "/")).status, 503);
});

test("an upstream that answers HEAD with a body does not answer the next request with it", async () => {
  await using upstream = await rawUpstream((socket, head) => {
    const body = head.startsWith("HEAD")
      ? "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
      : "good";
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n`);
    setImmediate(() => socket.write(body));
  });
  await using gateway = await startForwardingGateway(upstream.port, { connections: 1 });
  assert.equal((await ask(gateway, "/", { method: "HEAD" })).status, 200);
  assert.equal((await ask(gateway, "/")).body, "good");
});

test("an answer before the end of a chunked upload is complete, and then the client's connection closes", async () => {
  await using upstream = await httpUpstream((_, res) => {
    res.writeHead(403, { "content-length": 2 }).end("no");
  });
  await using gateway = await startForwardingGateway(upstream.port);
  using client = rawClient(gateway.port);
  client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
  assert.match(await client.closed(), /^HTTP\/1\.1 403 [^]*\r\n\r\nno$/);
  assert.deepEqual(gateway.outcomes, ["complete"]);
});

test("an upload to an upstream that closes in its middle is a 503, and is not sent again", async () => {
  let heads = 0;
  await using upstream = await rawUpstream((socket, head) => {
    heads++;
    if (head.startsWith("GET")) socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    else socket.end();
  });
  await using gateway = await startForwardingGateway(upstream.port, { connections: 1 });
  assert.equal((await ask(gateway, "/")).body, "ok");
  using client = rawClient(gateway.port);
  client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nhalf");
  assert.match(await client.until("\r\n\r\n"), /^HTTP\/1\.1 503 /);
  assert.equal(heads, 2);
});

test("a POST without content announces that, a DELETE does not", async () => {
  await using upstream = await httpUpstream((req, res) => {
    res.end(JSON.stringify(req.headers["content-length"] ?? null));
  });
  await using gateway = await startForwardingGateway(upstream.port);
  assert.equal((await ask(gateway, "/", { method: "POST" })).body, '"0"');
  assert.equal((await ask(gateway, "/", { method: "DELETE" })).body, "null");
});

for (const target of ["/a b", "/a\r\nX: y", "/\u010d", "no-path", ""]) {
  test(`a plugin that forwards to ${JSON.stringify(target)} gets a 400, and nothing is sent`, async () => {
    await using upstream = await httpUpstream((_, res) => void res.end());
    await using gateway = await startForwardingGateway(upstream.port, { target });
    const { status, body } = await ask(gateway, "/");
    assert.equal(status, 400);
    assert.match(body, /"error_code":"GATEWAY_INVALID_PARAMS"/);
    assert.equal(upstream.sockets.length, 0);
  });
}
