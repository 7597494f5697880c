import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { test } from "node:test";
import type { Exchange } from "../../src/plugin.ts";
import { ask } from "../pipeline/harness.ts";
import {
  deadPort,
  httpUpstream,
  rawClient,
  rawUpstream,
  startForwardingGateway,
} from "./forwarding-gateway.ts";

interface Seen {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly rawHeaders: readonly string[];
  readonly body: string;
}

function mirror() {
  return httpUpstream((req, res) => {
    const chunks: Buffer[] = [];
    req.on("data", (chunk: Buffer) => chunks.push(chunk));
    req.on("end", () => {
      const body = Buffer.concat(chunks).toString("latin1");
      const { method, url, rawHeaders } = req;
      res.end(JSON.stringify({ method, url, rawHeaders, body }));
    });
  });
}

const parse = (body: string): Seen => JSON.parse(body) as Seen;

test("method, path, query and body reach the upstream byte for byte", async () => {
  await using upstream = await mirror();
  await using gateway = await startForwardingGateway(upstream.port);
  const target = "/a%2Fb/%C3%A9/~;p=1?x=%20&y=a+b&z=%zz";
  const body = randomBytes(2_000).toString("latin1");
  const sent = { method: "PATCH", body: Buffer.from(body, "latin1") };
  const seen = parse((await ask(gateway, target, sent)).body);
  assert.equal(seen.method, "PATCH");
  assert.equal(seen.url, target);
  assert.equal(seen.body, body);
  assert.equal(parse((await ask(gateway, "/a?")).body).url, "/a?");
});

test("the upstream gets its own host in Host, and the client's in X-Forwarded-Host", async () => {
  await using upstream = await mirror();
  await using gateway = await startForwardingGateway(upstream.port);
  const { rawHeaders } = parse((await ask(gateway, "/", { headers: { host: "a.example" } })).body);
  assert.equal(rawHeaders[rawHeaders.indexOf("host") + 1], `127.0.0.1:${upstream.port}`);
  assert.equal(rawHeaders[rawHeaders.indexOf("x-forwarded-host") + 1], "a.example");
});

test("a body keeps its framing, with a length or in chunks", async () => {
  await using upstream = await mirror();
  await using gateway = await startForwardingGateway(upstream.port);
  const post = { method: "POST", body: "hello" };
  const sized = parse(
    (await ask(gateway, "/", { ...post, headers: { "content-length": "5" } })).body,
  );
  const chunked = parse(
    (await ask(gateway, "/", { ...post, headers: { "transfer-encoding": "chunked" } })).body,
  );
  assert.deepEqual([sized.body, chunked.body], ["hello", "hello"]);
  assert.ok(sized.rawHeaders.includes("content-length"));
  assert.ok(!sized.rawHeaders.includes("transfer-encoding"));
  assert.ok(chunked.rawHeaders.includes("transfer-encoding"));
  assert.ok(!chunked.rawHeaders.includes("content-length"));
});

test("a body that arrives after its head is streamed, and one that arrives with its head is sent at once", async () => {
  await using upstream = await mirror();
  await using gateway = await startForwardingGateway(upstream.port);
  using client = rawClient(gateway.port);
  const head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\n";
  client.send(`${head}abcdef`);
  assert.match(await client.until("}"), /"body":"abcdef"/);
  client.send(`${head}gh`);
  while (gateway.pools.members[0]?.client.inFlight !== 1) await new Promise(setImmediate);
  client.send("ijkl");
  const all = await client.until('"ghijkl"');
  assert.equal(all.split('"content-length","6"').length, 3);
  await gateway.settled(2);
});

test("headers that steps set for the upstream replace those of the client, and not those of the operator", async () => {
  await using upstream = await mirror();
  await using gateway = await startForwardingGateway(upstream.port, {
    forward: { request: { set: { "X-Fixed": "operator" } } },
    steps: [
      {
        name: "sets",
        requestHeaders(x) {
          x.setUpstreamHeader("X-Tenant", "first");
          x.setUpstreamHeader("x-tenant", "blue");
          x.setUpstreamHeader("X-Fixed", "step");
          x.setUpstreamHeader("authorization", "Bearer token of the step");
        },
      },
    ],
  });
  const headers = { "X-TENANT": "red", authorization: "Bearer key" };
  const { rawHeaders } = parse((await ask(gateway, "/", { headers })).body);
  const valuesOf = (name: string): readonly string[] =>
    rawHeaders.filter((_, at) => rawHeaders[at - 1]?.toLowerCase() === name && at % 2 === 1);
  assert.deepEqual(valuesOf("x-tenant"), ["blue"]);
  assert.deepEqual(valuesOf("x-fixed"), ["operator"]);
  assert.deepEqual(valuesOf("authorization"), ["Bearer token of the step"]);
  // The headers belong to one exchange, although requests share their heads on a connection.
  assert.deepEqual(parse((await ask(gateway, "/", { headers })).body).rawHeaders, rawHeaders);
});

test("a step that sets an impossible header for the upstream fails", async () => {
  await using upstream = await mirror();
  for (const [name, value] of [
    ["a b", "x"],
    ["x-a", "a\r\nb: c"],
    ["Content-Length", "1"],
    ["host", "a.example"],
    ["connection", "close"],
  ] as const) {
    const steps = [
      { name: "bad", requestHeaders: (x: Exchange) => x.setUpstreamHeader(name, value) },
    ];
    await using gateway = await startForwardingGateway(upstream.port, { steps });
    assert.equal((await ask(gateway, "/")).status, 500, name);
  }
});

test("a step changes what is forwarded and what comes back", async () => {
  await using upstream = await mirror();
  await using gateway = await startForwardingGateway(upstream.port, {
    steps: [
      {
        name: "transform",
        requestBody: (x, body) => x.replaceBody(Buffer.from(`${body.toString().toUpperCase()}!`)),
        responseHeaders(_, head) {
          head.status = 201;
          head.set("x-transformed", "1");
        },
        responseChunk: (_, chunk) =>
          Buffer.from(Buffer.from(chunk).toString().replace("HELLO", "HELLO, CLIENT")),
      },
    ],
  });
  const { status, headers, body } = await ask(gateway, "/", { method: "POST", body: "hello" });
  assert.deepEqual([status, headers["x-transformed"]], [201, "1"]);
  const seen = parse(body);
  assert.equal(seen.body, "HELLO, CLIENT!");
  assert.equal(seen.rawHeaders[seen.rawHeaders.indexOf("content-length") + 1], "6");
});

test("HEAD keeps the length and has no body; the connection serves the next request", async () => {
  await using upstream = await httpUpstream((_, res) => {
    res.writeHead(200, { "content-length": "12345" });
    res.end();
  });
  await using gateway = await startForwardingGateway(upstream.port);
  using client = rawClient(gateway.port);
  client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
  const head = await client.until("\r\n\r\n");
  assert.match(head, /^HTTP\/1\.1 200 /);
  assert.match(head, /content-length: 12345\r\n/i);
  client.send("HEAD /again HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  const all = await client.closed();
  assert.equal(all.split("HTTP/1.1 200").length, 3);
  assert.ok(all.endsWith("\r\n\r\n"));
});

for (const status of [204, 304]) {
  test(`a ${status} has no body, and its connection stays usable`, async () => {
    await using upstream = await httpUpstream((_, res) => void res.writeHead(status).end());
    await using gateway = await startForwardingGateway(upstream.port);
    using client = rawClient(gateway.port);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    const head = await client.until("\r\n\r\n");
    assert.match(head, new RegExp(`^HTTP/1\\.1 ${status} `));
    assert.doesNotMatch(head, /content-length|transfer-encoding/i);
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert.equal((await client.closed()).split(`HTTP/1.1 ${status}`).length, 3);
  });
}

test("early hints are forwarded before the answer", async () => {
  await using upstream = await rawUpstream((socket) => {
    socket.write("HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n");
    socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  });
  await using gateway = await startForwardingGateway(upstream.port);
  using client = rawClient(gateway.port);
  client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  const all = await client.closed();
  assert.match(all, /^HTTP\/1\.1 103 Early Hints\r\nlink: <\/a\.css>; rel=preload\r\n/i);
  assert.match(all, /\r\n\r\nHTTP\/1\.1 200 OK\r\n[^]*\r\n\r\nok$/);
});

test("a client that speaks HTTP/1.0 gets the body without chunks or trailers", async () => {
  await using upstream = await httpUpstream((_, res) => {
    res.writeHead(200, { trailer: "x-sum" });
    res.write("one ");
    res.addTrailers({ "x-sum": "42" });
    res.end("two");
  });
  await using gateway = await startForwardingGateway(upstream.port);
  using client = rawClient(gateway.port);
  client.send("GET / HTTP/1.0\r\nHost: a\r\n\r\n");
  const all = await client.closed();
  assert.match(all, /\r\n\r\none two$/);
  assert.doesNotMatch(all, /transfer-encoding|trailer/i);
});

test("a body that ends with the upstream's connection arrives completely and in chunks", async () => {
  await using upstream = await rawUpstream((socket) => {
    socket.end("HTTP/1.0 200 OK\r\nX-A: b\r\n\r\nuntil the end");
  });
  await using gateway = await startForwardingGateway(upstream.port);
  const { status, headers, body } = await ask(gateway, "/");
  assert.deepEqual([status, body], [200, "until the end"]);
  assert.equal(headers["transfer-encoding"], "chunked");
});

test("the gateway itself sends 100 Continue, when an upstream is ready to read", async () => {
  const seen: string[] = [];
  await using upstream = await httpUpstream((req, res) => {
    seen.push(req.rawHeaders.join(" ").toLowerCase());
    req.resume().on("end", () => res.end("done"));
  });
  await using gateway = await startForwardingGateway(upstream.port);
  using client = rawClient(gateway.port);
  client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  assert.match(await client.until("\r\n\r\n"), /^HTTP\/1\.1 100 Continue\r\n\r\n$/);
  client.send("abc");
  await client.until("done");
  assert.equal(seen.length, 1);
  assert.doesNotMatch(seen[0] ?? "", /expect/);
});

test("a client that waits for 100 Continue does not get it if its body will not be read", async () => {
  await using gateway = await startForwardingGateway(await deadPort());
  using client = rawClient(gateway.port);
  client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  const all = await client.closed();
  assert.match(all, /^HTTP\/1\.1 503 /);
  assert.match(all, /connection: close/i);
});

test("an answer that begins before the upload has ended is streamed while the upload continues", async () => {
  await using upstream = await httpUpstream((req, res) => void req.pipe(res));
  await using gateway = await startForwardingGateway(upstream.port);
  using client = rawClient(gateway.port);
  client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
  await client.until("one");
  client.send("3\r\ntwo\r\n0\r\n\r\n");
  await client.until("two");
  await client.until("0\r\n\r\n");
  await gateway.settled(1);
  assert.deepEqual(gateway.outcomes, ["complete"]);
});

test("an answer waits for response hooks without being lost or buffered as a whole", async () => {
  const bytes = randomBytes(3_000_000);
  await using upstream = await httpUpstream((_, res) => void res.end(bytes));
  const { promise: hookMayEnd, resolve: endHook } = Promise.withResolvers<void>();
  const { promise: hookRuns, resolve: hookStarted } = Promise.withResolvers<void>();
  await using gateway = await startForwardingGateway(upstream.port, {
    steps: [{ name: "slow", responseHeaders: () => (hookStarted(), hookMayEnd) }],
  });
  const asked = fetch(`http://127.0.0.1:${gateway.port}/`);
  await hookRuns;
  endHook();
  const got = Buffer.from(await (await asked).arrayBuffer());
  assert.equal(digest(got), digest(bytes));
});

test("a body above bodyBytes is refused before anything is sent to the upstream", async () => {
  await using upstream = await mirror();
  await using gateway = await startForwardingGateway(upstream.port, { forward: { bodyBytes: 4 } });
  const { status, body } = await ask(gateway, "/", { method: "POST", body: "hello" });
  assert.equal(status, 413);
  assert.match(body, /GATEWAY_INVALID_PARAMS/);
  assert.equal(upstream.sockets.length, 0);
  assert.equal((await ask(gateway, "/", { method: "POST", body: "hell" })).status, 200);
});

test("a chunked body is cut off where it exceeds bodyBytes, and the excess is never sent", async () => {
  const { promise: aborted, resolve } = Promise.withResolvers<string>();
  await using upstream = await httpUpstream((req) => {
    let body = "";
    req.on("data", (chunk: Buffer) => (body += chunk.toString()));
    req.on("error", () => resolve(body));
  });
  await using gateway = await startForwardingGateway(upstream.port, { forward: { bodyBytes: 4 } });
  using client = rawClient(gateway.port);
  client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
  while (upstream.sockets.length === 0) await new Promise(setImmediate);
  client.send("3\r\ntwo\r\n");
  assert.match(await client.until("\r\n\r\n"), /^HTTP\/1\.1 413 /);
  assert.doesNotMatch(await aborted, /tw/);
});

function digest(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
