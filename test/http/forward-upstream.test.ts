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
