import assert from "node:assert/strict";
import { test } from "node:test";
import {
  httpUpstream,
  rawClient,
  startForwardingGateway,
  type ForwardingGateway,
  type ForwardingOptions,
  type RawClient,
  type Upstream,
} from "./forwarding-gateway.ts";

interface Recording extends AsyncDisposable {
  readonly gateway: ForwardingGateway;
  readonly upstream: Upstream;
  readonly client: RawClient;
  /** The requests that have reached the upstream completely. */
  readonly seen: readonly string[];
}

async function record(options: ForwardingOptions = {}): Promise<Recording> {
  const seen: string[] = [];
  const stack = new AsyncDisposableStack();
  const upstream = stack.use(
    await httpUpstream((req, res) => {
      let body = "";
      req.on("data", (chunk: Buffer) => (body += chunk.toString("latin1")));
      req.on("error", () => {});
      req.on("end", () => {
        seen.push(`${req.method} ${req.url} ${body}`);
        res.end("answered");
      });
    }),
  );
  const gateway = stack.use(await startForwardingGateway(upstream.port, options));
  const client = stack.use(rawClient(gateway.port));
  return {
    gateway,
    upstream,
    client,
    seen,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

const post = "POST / HTTP/1.1\r\nHost: a\r\n";
const chunked = `${post}Transfer-Encoding: chunked\r\n\r\n`;
const webSocket =
  "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
  "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
const hidden = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";

/** Each request is refused with this status, its connection is closed, and nothing of it reaches the upstream. */
const refused: Readonly<Record<string, readonly [status: number, bytes: string]>> = {
  "two lengths that differ": [400, `${post}Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd`],
  "two lengths that agree": [400, `${post}Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc`],
  "a list of lengths": [400, `${post}Content-Length: 3, 3\r\n\r\nabc`],
  "a signed length": [400, `${post}Content-Length: +3\r\n\r\nabc`],
  "a negative length": [400, `${post}Content-Length: -1\r\n\r\n`],
  "a length beyond 64 bits": [400, `${post}Content-Length: 18446744073709551617\r\n\r\na`],
  "a length in hex": [400, `${post}Content-Length: 0x3\r\n\r\nabc`],
  "a length and chunks": [
    400,
    `${post}Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${hidden}`,
  ],
  "chunks and a length": [
    400,
    `${post}Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\n${hidden}`,
  ],
  "chunked, identity": [400, `${post}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n`],
  "chunked twice": [
    400,
    `${post}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  ],
  "identity, with a length": [
    400,
    `${post}Transfer-Encoding: identity\r\nContent-Length: 3\r\n\r\nabc`,
  ],
  "a coding that only sounds like chunked": [
    501,
    `${post}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`,
  ],
  "a coding before chunked": [501, `${post}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`],
  "a space before the colon": [400, `${post}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n`],
  "a vertical tab in the coding": [400, `${post}Transfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n`],
  "chunks in HTTP/1.0": [
    400,
    "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
  ],
  "a folded field": [400, `${post}X-A: b\r\n c\r\nContent-Length: 0\r\n\r\n`],
  "a folded coding": [400, `${post}Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n`],
  "a field before the first one is folded": [400, "GET / HTTP/1.1\r\n Host: a\r\n\r\n"],
  "bare line feeds": [400, "GET / HTTP/1.1\nHost: a\n\n"],
  "one bare line feed": [400, `GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n`],
  "a bare carriage return": [400, "GET / HTTP/1.1\r\nHost: a\r\nX: y\rZ: q\r\n\r\n"],
  "NUL in a value": [400, "GET / HTTP/1.1\r\nHost: a\r\nX: y\0z\r\n\r\n"],
  "a control character in a value": [400, "GET / HTTP/1.1\r\nHost: a\r\nX: y\x01z\r\n\r\n"],
  "NUL in a name": [400, "GET / HTTP/1.1\r\nHost: a\r\nX\0: y\r\n\r\n"],
  "an empty name": [400, "GET / HTTP/1.1\r\nHost: a\r\n: y\r\n\r\n"],
  "a line without a colon": [400, "GET / HTTP/1.1\r\nHost: a\r\nabc\r\n\r\n"],
  "a space in the target": [400, "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"],
  "bytes above ASCII in the target": [400, "GET /\xe9 HTTP/1.1\r\nHost: a\r\n\r\n"],
  "a lower-case version": [400, "GET / http/1.1\r\nHost: a\r\n\r\n"],
  "HTTP/1.2": [400, "GET / HTTP/1.2\r\nHost: a\r\n\r\n"],
  "HTTP/0.9": [505, "GET /\r\n\r\n"],
  "HTTP/2.0 as text": [505, "GET / HTTP/2.0\r\nHost: a\r\n\r\n"],
  "the preface of HTTP/2": [400, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
  "a method that nobody knows": [400, "GETT / HTTP/1.1\r\nHost: a\r\n\r\n"],
  "no Host": [400, "GET / HTTP/1.1\r\n\r\n"],
  "two Hosts": [400, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"],
  "two Hosts that agree": [400, "GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n"],
  // Finding 9: node:http uses the first one, but a proxy in front of the gateway may use the last one.
  "two Authorization fields": [
    400,
    "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n",
  ],
  "two Authorization fields that agree, with a body": [
    400,
    `${post}Authorization: Bearer a\r\nauthorization: Bearer a\r\nContent-Length: 3\r\n\r\nabc`,
  ],
  "a second Authorization field after 2,000 others": [
    400,
    `GET / HTTP/1.1\r\nHost: a\r\nAuthorization: a\r\n${"a:\r\n".repeat(2_000)}Authorization: b\r\n\r\n`,
  ],
  "an upgrade with two Authorization fields": [
    400,
    `${webSocket}Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n`,
  ],
  "a Host that is not a host": [400, "GET / HTTP/1.1\r\nHost: a/../b\r\n\r\n"],
  "a Host with credentials": [400, "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"],
  "an absolute target for another host": [400, "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n"],
  "an absolute target with credentials": [400, "GET http://a@b/ HTTP/1.1\r\nHost: a\r\n\r\n"],
  "a head above 16 KiB": [431, `GET /${"a".repeat(20_000)} HTTP/1.1\r\nHost: a\r\n\r\n`],
};

test("an ambiguous or malformed request is refused without reaching the upstream", async () => {
  await using recording = await record();
  const { gateway, upstream, seen } = recording;
  for (const [name, [status, bytes]] of Object.entries(refused)) {
    using client = rawClient(gateway.port);
    client.send(bytes);
    const all = await client.closed();
    assert.match(all, new RegExp(`^HTTP/1\\.1 ${status} `), name);
    assert.equal(all.match(/^HTTP\/1\.1 \d/gm)?.length, 1, name);
    assert.deepEqual([seen, upstream.sockets.length], [[], 0], name);
  }
});

/** A valid head with an invalid body. The upstream may have received its start, but never an end. */
const brokenBodies: Readonly<Record<string, string>> = {
  "a chunk size beyond 64 bits": "fffffffffffffffff\r\n",
  "letters for a chunk size": "zz\r\n",
  "a negative chunk size": "-1\r\n",
  "a chunk size with a prefix": "0x3\r\nabc\r\n0\r\n\r\n",
  "a chunk size followed by a space": "3 \r\nabc\r\n0\r\n\r\n",
  "an empty chunk size": "\r\nabc\r\n0\r\n\r\n",
  "line feeds between chunks": "3\nabc\n0\n\n",
  "a line feed in a chunk extension": "3;a\nb\r\nabc\r\n0\r\n\r\n",
  "a chunk longer than its size": "3\r\nabcdef\r\n0\r\n\r\n",
  "a chunk without an end of line": "3\r\nabcX0\r\n\r\n",
  "a length among the trailers": "3\r\nabc\r\n0\r\nContent-Length: 9\r\n\r\n",
  "a trailer with a bare line feed": "0\r\nX: a\nY: b\r\n\r\n",
};

test("a malformed body is never complete at the upstream", async () => {
  await using recording = await record();
  const { gateway, seen } = recording;
  for (const [at, [name, body]] of Object.entries(brokenBodies).entries()) {
    using client = rawClient(gateway.port);
    client.send(`${chunked}${body}${hidden}`);
    assert.doesNotMatch(await client.closed(), / 200 /, name);
    await gateway.settled(at + 1);
    assert.deepEqual([seen, gateway.served.errors], [[], []], name);
  }
});

test("a request hidden in the body of a GET remains a body", async () => {
  await using recording = await record({ connections: 1 });
  const { client, seen, upstream } = recording;
  client.send(`GET / HTTP/1.1\r\nHost: a\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`);
  client.send("GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  assert.equal((await client.closed()).split("answered").length, 3);
  assert.deepEqual(seen, [`GET / ${hidden}`, "GET /next "]);
  // A server that ignores the body of a GET would read it as the next request, so that connection is not used again.
  assert.equal(upstream.sockets.length, 2);
});

test("a request after the last chunk is the client's next request", async () => {
  await using recording = await record();
  const { client, gateway, seen } = recording;
  client.send(`${chunked}3\r\nabc\r\n0\r\n\r\n${hidden}`);
  await client.until("answered");
  while (seen.length < 2) await new Promise(setImmediate);
  // Both are in flight at the same time, each on its own connection.
  assert.deepEqual(seen.toSorted(), ["GET /hidden ", "POST / abc"]);
  await gateway.settled(2);
});

test("Connection cannot remove the length or the Host of a request", async () => {
  await using recording = await record();
  const { client, seen } = recording;
  const length = `Connection: close, content-length, host\r\nContent-Length: ${hidden.length}\r\n\r\n`;
  client.send(`${post}${length}${hidden}`);
  await client.closed();
  assert.deepEqual(seen, [`POST / ${hidden}`]);
});

test("chunk extensions and trailers of a request are not forwarded", async () => {
  await using recording = await record();
  const { client, seen } = recording;
  client.send(`${chunked}3;ext="0"\r\nabc\r\n0\r\nX-T: 1\r\n\r\n`);
  await client.until("answered");
  assert.deepEqual(seen, ["POST / abc"]);
});

test("an absolute target with the host of Host is served like its path", async () => {
  await using recording = await record();
  const { client, seen } = recording;
  client.send("GET http://A:80/x?y HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  assert.match(await client.closed(), /^HTTP\/1\.1 200 /);
  assert.deepEqual(seen, ["GET /x?y "]);
});

test("the request to switch protocols is removed before forwarding", async () => {
  await using recording = await record();
  const { client, seen } = recording;
  client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\n");
  client.send("Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n");
  await client.until("answered");
  assert.deepEqual(seen, ["GET / "]);
});

test("CONNECT reaches no upstream", async () => {
  await using recording = await record();
  const { client, seen } = recording;
  client.send("CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n");
  assert.doesNotMatch(await client.closed(), / 2\d\d /);
  assert.deepEqual(seen, []);
});
