import assert from "node:assert/strict";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { WebSocket, WebSocketServer } from "ws";
import { StartError } from "../../../src/start-error.ts";
import { startTestGateway, type TestGateway } from "../../../plugins/contracts/testing.ts";
import { httpUpstream, rawClient, type Upstream } from "../../http/forwarding-gateway.ts";

interface Seen {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

function mirror(): Promise<Upstream> {
  return httpUpstream((req, res) => {
    req.resume();
    res.setHeader("x-powered-by", "mirror");
    res.end(JSON.stringify({ url: req.url, headers: req.headers }));
  });
}

function pipeline(urls: string, options: string, more = ""): string {
  return `
version: 1
server: { host: 127.0.0.1, port: "\${PORT}" }
admin: { host: 127.0.0.1, port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
upstreams:
  inner: { urls: "${urls}" }
lists:
  edge: [request-id, authenticate]
routes:
  - path: /*
    methods: ["*"]
    run: [{ use: edge }]
    to: { forward: { upstream: inner${options} } }
${more}`;
}

function start(upstream: Upstream, options = "", path = ""): Promise<TestGateway> {
  return startTestGateway({
    pipeline: pipeline(`http://127.0.0.1:${upstream.port}${path}`, options),
  });
}

async function seen(
  gateway: TestGateway,
  path: string,
  headers: Record<string, string> = {},
): Promise<Seen> {
  const response = await fetch(`${gateway.url}${path}`, { headers });
  assert.equal(response.status, 200);
  return (await response.json()) as Seen;
}

test("the API key stays in the gateway unless passAuthorization is set", async () => {
  await using upstream = await mirror();
  await using closed = await start(upstream);
  const authorization = `Bearer ${closed.key}`;
  assert.equal((await seen(closed, "/", { authorization })).headers["authorization"], undefined);
  await using open = await start(upstream, ", passAuthorization: true");
  const passed = `Bearer ${open.key}`;
  const { headers } = await seen(open, "/", { authorization: passed });
  assert.equal(headers["authorization"], passed);
});

test("prefixes are removed and added, and the rest is unchanged", async () => {
  await using upstream = await mirror();
  await using gateway = await start(upstream, ", stripPrefix: /api, prefix: /v2", "/base/");
  assert.equal((await seen(gateway, "/api/a%2Fb//c?x=%20")).url, "/base/v2/a%2Fb//c?x=%20");
  assert.equal((await seen(gateway, "/api?x")).url, "/base/v2/?x");
  assert.equal((await seen(gateway, "/api/")).url, "/base/v2/");
  for (const path of ["/apix", "/other", "/%61pi/x", "/API/x"]) {
    const { status } = await fetch(`${gateway.url}${path}`);
    assert.equal(status, 404, path);
  }
});

test("a path that might leave its prefix reaches no upstream", async () => {
  await using upstream = await mirror();
  await using gateway = await start(upstream, ", stripPrefix: /api");
  const climbing = [
    "/api/../admin",
    "/api/%2e%2E/admin",
    "/api/..%2fadmin",
    "/api/.%2e%5Cadmin",
    "/api/x\\..\\..\\admin",
    "/api/.",
    "/api/x/..",
    // Finding 13: Tomcat and Jetty drop what follows a semicolon before they resolve the segment.
    "/api/..;/admin",
    "/api/..;x=1/admin",
    "/api/%2e.;/admin",
    "/api/..%3bx/admin",
    "/api/x/.;a",
  ];
  for (const path of climbing) {
    using client = rawClient(Number(new URL(gateway.url).port));
    client.send(`GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`);
    assert.match(await client.closed(), /^HTTP\/1\.1 (400|404) /, path);
  }
  assert.equal(upstream.sockets.length, 0);
  assert.equal((await seen(gateway, "/api/a..b/...c/%2e%2ex")).url, "/a..b/...c/%2e%2ex");
  assert.equal((await seen(gateway, "/api/a;..;b/..c;x")).url, "/a;..;b/..c;x");
});

test("the operator adds, replaces and removes header fields in both directions", async () => {
  await using upstream = await mirror();
  const request = "request: { set: { X-Tenant: a, Host: inner.example }, remove: [X-Debug] }";
  const response = "response: { set: { Cache-Control: no-store }, remove: [X-Powered-By] }";
  await using gateway = await start(upstream, `, ${request}, ${response}`);
  const answer = await fetch(gateway.url, { headers: { "x-tenant": "forged", "x-debug": "1" } });
  const { headers } = (await answer.json()) as Seen;
  assert.equal(headers["x-tenant"], "a");
  assert.equal(headers["host"], "inner.example");
  assert.equal(headers["x-debug"], undefined);
  assert.equal(answer.headers.get("cache-control"), "no-store");
  assert.equal(answer.headers.get("x-powered-by"), null);
});

test("bodies are limited to 1 MiB unless bodyBytes is set", async () => {
  await using upstream = await mirror();
  const body = Buffer.alloc((1 << 20) + 1);
  const post = { method: "POST", body } as const;
  await using limited = await start(upstream);
  assert.equal((await fetch(limited.url, post)).status, 413);
  assert.equal((await fetch(limited.url, { ...post, body: body.subarray(1) })).status, 200);
  await using open = await start(upstream, ", bodyBytes: 0");
  assert.equal((await fetch(open.url, post)).status, 200);
});

test("a reload keeps the connections of an upstream that has not changed", async () => {
  await using upstream = await mirror();
  await using gateway = await start(upstream);
  await seen(gateway, "/1");
  const connections = upstream.sockets.length;
  await gateway.write(pipeline(`http://127.0.0.1:${upstream.port}`, "", "# changed\n"));
  assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
  await seen(gateway, "/2");
  assert.equal(upstream.sockets.length, connections);
});

test("@fastify/http-proxy in front of the routes passes a WebSocket on", async () => {
  await using upstream = await mirror();
  const server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  await once(server, "listening");
  server.on("connection", (socket) => {
    socket.on("message", (data, binary) => socket.send(data, { binary }));
  });
  // A listening TCP server has an AddressInfo.
  const { port } = server.address() as AddressInfo;
  const options = `{ upstream: "http://127.0.0.1:${port}", prefix: /internal, websocket: true }`;
  const fastify = `fastify:\n  - "@fastify/http-proxy": ${options}\n`;
  await using gateway = await startTestGateway({
    pipeline: pipeline(`http://127.0.0.1:${upstream.port}`, "", fastify),
  });
  const client = new WebSocket(`${gateway.url.replace("http", "ws")}/internal`);
  await once(client, "open");
  client.send("hello");
  const [data] = (await once(client, "message")) as [Buffer];
  assert.equal(data.toString(), "hello");
  client.close();
  await once(client, "close");
  server.close();
  assert.equal((await seen(gateway, "/routed")).url, "/routed");
});

const faults: readonly (readonly [name: string, urls: string, options: string, said: RegExp])[] = [
  ["an upstream that speaks WebSocket", "ws://a", "", /http and https, not ws/],
  ["a url with credentials", "http://u:p@a", "", /credentials/],
  ["a url with a query", "http://a/?x", "", /query/],
  [
    "a field of the connection",
    "http://a",
    ", request: { set: { Upgrade: x } }",
    /Upgrade belongs/,
  ],
  ["a field that frames", "http://a", ", response: { set: { content-length: '1' } }", /belongs/],
  ["a value with a line feed", "http://a", ', request: { set: { a: "x\\ny" } }', /set/],
  ["a prefix with a slash at its end", "http://a", ", stripPrefix: /api/", /stripPrefix/],
  ["a prefix that is not a path", "http://a", ", prefix: api", /prefix/],
];
for (const [name, urls, options, said] of faults) {
  test(`does not start with ${name}`, async () => {
    await assertRefused(pipeline(urls, options), said);
  });
}

async function assertRefused(written: string, said: RegExp): Promise<void> {
  await assert.rejects(startTestGateway({ pipeline: written }), (error) => {
    assert.ok(error instanceof StartError);
    assert.match(error.message, said);
    return true;
  });
}

test("the upstream gets the request id of the exchange, and its charge headers are dropped", async () => {
  await using upstream = await httpUpstream((req, res) => {
    res.setHeader("x-used-cu-milli", "1");
    res.end(JSON.stringify({ url: req.url, headers: req.headers }));
  });
  await using gateway = await start(upstream);
  for (const sent of ["mine-1", "not visible ä", undefined]) {
    const headers: Record<string, string> = sent === undefined ? {} : { "X-Request-ID": sent };
    const response = await fetch(`${gateway.url}/a`, { headers });
    const { headers: got } = (await response.json()) as Seen;
    assert.equal(got["x-request-id"], response.headers.get("x-request-id"));
    assert.equal(got["x-request-id"] === sent, sent === "mine-1");
    assert.equal(response.headers.get("x-used-cu-milli"), null);
  }
  await using own = await start(upstream, ', request: { set: { X-Request-ID: "fixed" } }');
  assert.equal(
    (await seen(own, "/a", { "x-request-id": "mine-1" })).headers["x-request-id"],
    "fixed",
  );
});
