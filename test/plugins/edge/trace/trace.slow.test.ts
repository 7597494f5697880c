/** The spans that a collector receives, and the trace context that upstreams receive. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import type { RequestListener } from "node:http";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { startTestGateway, type TestGateway } from "../../../../plugins/contracts/testing.ts";
import {
  deadPort,
  httpUpstream,
  rawClient,
  rawUpstream,
  type Upstream,
} from "../../../http/forwarding-gateway.ts";
import { stateless } from "../../../e2e/mcp-gateway.ts";
import {
  environment,
  one,
  openReceiver,
  type ReceivedSpan,
  type Receiver,
} from "./otlp-receiver.ts";

const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
const spanId = "00f067aa0ba902b7";
const sampled = `00-${traceId}-${spanId}-01`;
const tools = JSON.stringify(join(import.meta.dirname, "../../../e2e/tools-plugin.ts"));

const pipelineTo = (port: number): string => `
version: 1
server: { host: 127.0.0.1, port: "\${PORT}", drainDelaySeconds: 0, trustProxy: [127.0.0.1] }
admin: { host: 127.0.0.1, port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
upstreams: { inner: { urls: "http://127.0.0.1:${port}", idleMs: 5000 } }
plugins: { tools-plugin: ${tools} }
tools: [tools-plugin, gateway-batch]
lists:
  edge: [request-id, trace, { access-log: { file: access.log } }, agent-headers, authenticate]
  keyed: [{ use: edge }, { authorize: { require: key } }]
unmatched: [request-id, trace]
routes:
  - { path: /open/*, methods: ["*"], run: [{ use: edge }], to: { forward: { upstream: inner } } }
  - path: /silent/*
    run: [{ use: edge }]
    to: { forward: { upstream: inner, request: { remove: [TraceParent, tracestate] } } }
  - path: /own/*
    run: [{ use: edge }]
    to: { forward: { upstream: inner, request: { set: { traceparent: theirs } } } }
  - path: /paid/{name}
    run: [{ use: keyed }, { meter: { price: 1500 } }]
    to: { forward: { upstream: inner } }
  - { path: /rpc, methods: [POST], run: [{ use: keyed }, meter], to: tool-rpc }
  - { path: /mcp, methods: [POST], run: [{ use: keyed }, meter], to: mcp }
`;

interface Scene {
  readonly gateway: TestGateway;
  readonly receiver: Receiver;
}

interface Traced {
  /** Default: one that answers with the trace context that it gets. */
  readonly upstream?: Upstream | number;
  readonly env?: Readonly<Record<string, string>>;
}

async function traced(
  t: TestContext,
  act: (scene: Scene) => Promise<void>,
  { upstream, env }: Traced = {},
): Promise<readonly ReceivedSpan[]> {
  await using own = await httpUpstream(mirror);
  await using receiver = await openReceiver();
  environment(t, { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url, ...env });
  const { port } = typeof upstream === "number" ? { port: upstream } : (upstream ?? own);
  {
    await using gateway = await startTestGateway({ pipeline: pipelineTo(port) });
    await act({ gateway, receiver });
  }
  return receiver.spans;
}

const mirror: RequestListener = (req, res) => {
  req.resume();
  const { traceparent, tracestate } = req.headers;
  res.end(JSON.stringify({ traceparent, tracestate }));
};

type Seen = { readonly traceparent?: string; readonly tracestate?: string };

async function get(url: string, headers: Record<string, string> = {}): Promise<Seen> {
  const response = await fetch(url, { headers });
  assert.equal(response.status, 200);
  return (await response.json()) as Seen;
}

test("the access log names the trace that the client sent, or the gateway's own", async (t) => {
  let lines: string[] = [];
  const spans = await traced(t, async ({ gateway }) => {
    await get(`${gateway.url}/open/a`, { traceparent: sampled });
    await get(`${gateway.url}/open/b`);
    await gateway.gateway.stop();
    lines = readFileSync(join(gateway.folder, "access.log"), "utf8").trim().split("\n");
  });
  const servers = spans.filter((span) => span.name === "GET /open/*");
  const logged = lines.map((line) => JSON.parse(line) as { trace_id: string; span_id: string });
  assert.deepEqual(
    logged.map(({ trace_id, span_id }) => `${trace_id} ${span_id}`).toSorted(),
    servers.map((span) => `${span.traceId} ${span.spanId}`).toSorted(),
  );
  assert.ok(logged.some(({ trace_id }) => trace_id === traceId));
});

test("an exchange continues its client's trace, and its upstream continues the gateway's", async (t) => {
  let seen: Seen = {};
  const spans = await traced(t, async ({ gateway }) => {
    const headers = { traceparent: sampled, tracestate: "rojo=1,congo=2", "x-request-id": "r-1" };
    seen = await get(`${gateway.url}/open/a?secret=1`, headers);
  });
  assert.equal(spans.length, 2);
  const server = one(spans, "GET /open/*");
  const client = one(spans, "GET");
  assert.deepEqual(
    [server.traceId, server.parentSpanId, server.traceState, server.kind, server.status],
    [traceId, spanId, "rojo=1,congo=2", 2, 0],
  );
  assert.deepEqual(
    [client.traceId, client.parentSpanId, client.kind, client.status],
    [traceId, server.spanId, 3, 0],
  );
  assert.deepEqual(seen, {
    traceparent: `00-${traceId}-${client.spanId}-01`,
    tracestate: "rojo=1,congo=2",
  });
  assert.ok(server.start <= client.start && client.start <= client.end && client.end <= server.end);
  assert.deepEqual(server.attributes, {
    "http.request.method": "GET",
    "http.route": "/open/*",
    "url.scheme": "http",
    "url.path": "/open/a",
    "client.address": "127.0.0.1",
    "http.response.status_code": 200,
    "http.response.body.size": Buffer.byteLength(JSON.stringify(seen)),
    "sluice.outcome": "complete",
    "sluice.request.id": "r-1",
  });
  assert.deepEqual(client.attributes, {
    "http.request.method": "GET",
    "sluice.upstream": "inner",
    "http.response.status_code": 200,
  });
});

test("a new trace begins without a valid traceparent; the client's unsampled trace and the operator's headers are respected", async (t) => {
  const seen: Seen[] = [];
  let unsampled: Seen = {};
  const spans = await traced(t, async ({ gateway }) => {
    seen.push(await get(`${gateway.url}/open/a`));
    const invalid = { traceparent: `${sampled}-more`, tracestate: "rojo=1" };
    seen.push(await get(`${gateway.url}/open/b`, invalid));
    const notSampled = { traceparent: `00-${traceId}-${spanId}-00`, tracestate: "a=1" };
    unsampled = await get(`${gateway.url}/open/a`, notSampled);
    const headers = { traceparent: sampled, tracestate: "rojo=1" };
    assert.deepEqual(await get(`${gateway.url}/silent/a`, headers), {});
    assert.deepEqual(await get(`${gateway.url}/own/a`, headers), {
      traceparent: "theirs",
      tracestate: "rojo=1",
    });
  });
  const roots = spans.filter((span) => span.name === "GET /open/*");
  assert.equal(roots.length, 2, "the unsampled trace is not exported");
  for (const root of roots) {
    assert.equal(root.parentSpanId, "");
    assert.match(root.traceId, /^(?!0{32})[0-9a-f]{32}$/);
    assert.notEqual(root.traceId, traceId);
  }
  assert.notEqual(roots[0]?.traceId, roots[1]?.traceId);
  for (const { traceparent = "", tracestate } of seen) {
    assert.ok(spans.some((s) => traceparent === `00-${s.traceId}-${s.spanId}-01` && s.kind === 3));
    assert.equal(tracestate, undefined);
  }
  assert.match(unsampled.traceparent ?? "", new RegExp(`^00-${traceId}-[0-9a-f]{16}-00$`));
  assert.notEqual(unsampled.traceparent, `00-${traceId}-${spanId}-00`);
  assert.equal(unsampled.tracestate, "a=1");
});

test("the operator's sampler decides: always_on overrides the client, traceidratio 0 drops every root span", async (t) => {
  const unsampled = { traceparent: `00-${traceId}-${spanId}-00` };
  const tracesOf = async (
    env: Record<string, string>,
    ...requests: readonly Record<string, string>[]
  ): Promise<string[]> => {
    const act = async ({ gateway }: Scene): Promise<void> => {
      for (const headers of requests) await get(`${gateway.url}/open/a`, headers);
    };
    return (await traced(t, act, { env })).map((span) => span.traceId);
  };
  const all = await tracesOf({ OTEL_TRACES_SAMPLER: "always_on" }, unsampled);
  assert.equal(all.length, 2);
  const ratio = { OTEL_TRACES_SAMPLER: "parentbased_traceidratio", OTEL_TRACES_SAMPLER_ARG: "0" };
  const some = await tracesOf(ratio, {}, { traceparent: sampled });
  assert.deepEqual(some, [traceId, traceId]);
  const none = await tracesOf({ OTEL_TRACES_SAMPLER: "always_off" }, { traceparent: sampled });
  assert.deepEqual(none, []);
});

test("the span contains the caller, the call and the cost, and no secrets", async (t) => {
  let ids: string[] = [];
  let secret = "";
  const spans = await traced(t, async ({ gateway }) => {
    ids = [gateway.keyId, gateway.workspaceId];
    secret = gateway.key;
    const authorization = `Bearer ${gateway.key}`;
    await get(`${gateway.url}/paid/${gateway.key}?key=${gateway.key}`, {
      authorization,
      "x-request-id": gateway.key,
      "x-forwarded-for": "203.0.113.9",
      "x-forwarded-proto": "https",
      "x-agent-name": "Ada\u00e9",
      "x-agent-version": "1.2",
      "x-agent-session-id": "s-1",
      "x-agent-provider": "acme",
      "x-agent-capabilities": "read, write",
    });
  });
  const { attributes, resource } = one(spans, "GET /paid/{name}");
  assert.deepEqual([attributes["sluice.key.id"], attributes["sluice.workspace.id"]], ids);
  assert.equal(attributes["sluice.cu.used_milli"], 1500);
  assert.equal(attributes["gen_ai.agent.name"], "Ada?");
  assert.equal(attributes["gen_ai.agent.version"], "1.2");
  assert.equal(attributes["gen_ai.conversation.id"], "s-1");
  assert.equal(attributes["sluice.agent.provider"], "acme");
  assert.deepEqual(attributes["sluice.agent.capabilities"], ["read", "write"]);
  assert.equal(attributes["client.address"], "203.0.113.9");
  assert.equal(attributes["url.scheme"], "https");
  assert.ok(secret.length > 20);
  assert.ok(
    !JSON.stringify(spans, (_, v: unknown) => (typeof v === "bigint" ? String(v) : v)).includes(
      secret,
    ),
  );
  assert.equal(resource["service.name"], "sluice");
  assert.match(String(resource["service.version"]), /^\d+\.\d+\.\d+/);
  assert.equal(resource["deployment.environment.name"], "dev");
});

test("the resource is set by OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES", async (t) => {
  const env = {
    OTEL_SERVICE_NAME: "edge",
    OTEL_RESOURCE_ATTRIBUTES: "service.name=other,deployment.environment.name=blue",
  };
  const act = async ({ gateway }: Scene): Promise<void> =>
    void (await get(`${gateway.url}/open/a`));
  const [span] = await traced(t, act, { env });
  assert.equal(span?.resource["service.name"], "edge");
  assert.equal(span?.resource["deployment.environment.name"], "blue");
});

test("refusals and unknown paths also have a span: error.type is their code, and only errors of the gateway have the status error", async (t) => {
  const act = async ({ gateway }: Scene): Promise<void> => {
    assert.equal((await fetch(`${gateway.url}/paid/a`)).status, 401);
    assert.equal((await fetch(`${gateway.url}/nowhere/gateway_x`)).status, 404);
    assert.equal((await fetch(`${gateway.url}/rpc`)).status, 405);
    assert.equal((await fetch(`${gateway.url}/open/a`)).status, 503);
  };
  const spans = await traced(t, act, { upstream: await deadPort() });

  const summary = spans
    .filter((span) => span.kind === 2)
    .map(({ name, status, attributes }) => [
      name,
      attributes["http.response.status_code"],
      attributes["error.type"],
      attributes["sluice.outcome"],
      status,
    ]);
  assert.deepEqual(summary, [
    ["GET /paid/{name}", 401, "GATEWAY_UNAUTHORIZED", "replied", 0],
    ["GET", 404, "GATEWAY_NOT_FOUND", "complete", 0],
    ["GET", 405, "GATEWAY_INVALID_PARAMS", "complete", 0],
    ["GET /open/*", 503, "GATEWAY_SERVICE_UNAVAILABLE", "complete", 2],
  ]);
  const unmatched = spans.filter((span) => span.name === "GET" && span.kind === 2);
  for (const { attributes } of unmatched) assert.ok(!("http.route" in attributes));
  const client = spans.filter((span) => span.kind === 3);
  assert.deepEqual(
    client.map(({ status, attributes }) => [status, attributes["error.type"]]),
    [[2, "unreachable"]],
  );
});

test("a 404 or 500 of an upstream ends its own span with an error; an answer that breaks off ends both spans with one", async (t) => {
  await using upstream = await httpUpstream((req, res) => {
    const status = Number(req.url?.slice("/open/".length));
    if (status > 0) res.writeHead(status).end();
    else res.writeHead(200, { "content-length": "10" }).write("12345", () => res.destroy());
  });
  const act = async ({ gateway }: Scene): Promise<void> => {
    assert.equal((await fetch(`${gateway.url}/open/404`)).status, 404);
    assert.equal((await fetch(`${gateway.url}/open/500`)).status, 500);
    await assert.rejects((await fetch(`${gateway.url}/open/cut`)).text());
  };
  const spans = await traced(t, act, { upstream });
  const endings = (kind: number): unknown[] =>
    spans
      .filter((span) => span.kind === kind)
      .map(({ status, attributes }) => [
        attributes["http.response.status_code"],
        attributes["error.type"],
        status,
      ]);
  assert.deepEqual(endings(3), [
    [404, "404", 2],
    [500, "500", 2],
    [200, "broken", 2],
  ]);
  assert.deepEqual(endings(2), [
    [404, undefined, 0],
    [500, "500", 2],
    [200, "upstreamFailed", 2],
  ]);
});

test("a client that leaves ends both spans, without an error of the gateway", async (t) => {
  const { promise: arrived, resolve: arrive } = Promise.withResolvers<void>();
  const { promise: left, resolve: leave } = Promise.withResolvers<void>();
  await using upstream = await rawUpstream((socket) => {
    socket.on("close", leave);
    arrive();
  });
  const act = async ({ gateway }: Scene): Promise<void> => {
    const client = rawClient(Number(new URL(gateway.url).port));
    client.send("GET /open/a HTTP/1.1\r\nhost: a\r\n\r\n");
    await arrived;
    client[Symbol.dispose]();
    await left;
  };
  const spans = await traced(t, act, { upstream });
  const server = one(spans, "GET /open/*");
  assert.equal(server.attributes["sluice.outcome"], "clientLeft");
  assert.equal(server.attributes["client.address"], "127.0.0.1");
  assert.ok(!("http.response.status_code" in server.attributes));
  assert.equal(server.status, 0);
  assert.equal(one(spans, "GET").attributes["error.type"], "clientLeft");
});

test("each tool call has a span, and nested calls have spans below the call that made them", async (t) => {
  const spans = await traced(t, async ({ gateway }) => {
    const headers = {
      authorization: `Bearer ${gateway.key}`,
      "content-type": "application/json",
      traceparent: sampled,
    };
    const post = (path: string, body: object): Promise<Response> =>
      fetch(gateway.url + path, { method: "POST", headers, body: JSON.stringify(body) });
    const call = (tool: string, params: object): object => ({
      jsonrpc: "2.0",
      id: 1,
      method: "tools.call",
      params: { tool, params },
    });
    await post("/rpc", call("echo", { text: "a" }));
    await post("/rpc", call("throws", {}));
    await post("/mcp", {
      tool: "gateway_batch",
      input: { calls: [{ tool: "echo", params: { text: "a" } }] },
    });
  });
  const [first, second, third] = spans.filter((span) => span.kind === 2);
  const below = (parent: ReceivedSpan | undefined): readonly ReceivedSpan[] =>
    spans.filter((span) => span.parentSpanId === parent?.spanId);
  const [echo] = below(first);
  assert.equal(echo?.name, "execute_tool echo");
  assert.equal(echo.kind, 1);
  assert.equal(echo.traceId, traceId);
  assert.equal(echo.attributes["gen_ai.operation.name"], "execute_tool");
  assert.equal(echo.attributes["gen_ai.tool.name"], "echo");
  assert.equal(echo.status, 0);
  const [broken] = below(second);
  assert.equal(broken?.name, "execute_tool throws");
  assert.equal(broken.attributes["error.type"], "GATEWAY_INTERNAL_ERROR");
  assert.equal(broken.status, 2);
  const [batch] = below(third);
  assert.equal(batch?.name, "execute_tool gateway_batch");
  assert.deepEqual(
    below(batch).map((span) => span.name),
    ["execute_tool echo"],
  );
  assert.equal(spans.length, 7);
});

test("a call whose message has its own trace gets its span there, linked to the request's span", async (t) => {
  const other = "0af7651916cd43dd8448eb211c80319c";
  const named = { traceparent: `00-${other}-b7ad6b7169203331-01`, tracestate: "vendor=1" };
  const metas: readonly unknown[] = [
    named,
    { traceparent: sampled },
    { traceparent: "nonsense", tracestate: "vendor=1" },
    { traceparent: 1 },
    { traceparent: [named.traceparent] },
    { tracestate: "vendor=1" },
    { traceparent: named.traceparent, tracestate: 7 },
    "no object",
  ];
  const spans = await traced(t, async ({ gateway }) => {
    const headers = {
      authorization: `Bearer ${gateway.key}`,
      "content-type": "application/json",
      traceparent: sampled,
    };
    for (const meta of metas) {
      const params = { name: "echo", arguments: { text: "a" }, _meta: meta };
      const message = { jsonrpc: "2.0", id: 1, method: "tools/call", params };
      const { body, headers: more } = stateless("tools/call", {
        ...params,
        _meta: typeof meta === "object" ? meta : {},
      });
      const inSession = { method: "POST", headers, body: JSON.stringify(message) };
      assert.equal((await fetch(`${gateway.url}/mcp`, inSession)).status, 200);
      const alone = {
        method: "POST",
        headers: { ...headers, ...more },
        body: JSON.stringify(body),
      };
      assert.equal((await fetch(`${gateway.url}/mcp`, alone)).status, 200);
    }
  });
  const servers = spans.filter((span) => span.kind === 2);
  assert.ok(servers.every((span) => span.traceId === traceId));
  const calls = spans.filter((span) => span.name === "execute_tool echo");
  assert.equal(calls.length, 2 * metas.length);
  for (const [at, span] of calls.entries()) {
    const meta = metas[Math.floor(at / 2)];
    const request = servers[at];
    assert(request !== undefined);
    if (Object(meta).traceparent === named.traceparent) {
      assert.deepEqual([span.traceId, span.parentSpanId], [other, "b7ad6b7169203331"]);
      assert.equal(span.traceState, meta === named ? "vendor=1" : "");
      assert.deepEqual(span.links, [`${traceId} ${request.spanId}`]);
    } else {
      assert.deepEqual([span.traceId, span.parentSpanId], [traceId, request.spanId]);
      assert.deepEqual(span.links, []);
    }
  }
});

async function spanCounts(gateway: TestGateway): Promise<Record<string, number>> {
  const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  return Object.fromEntries(
    [...text.matchAll(/^sluice_trace_spans_total\{result="(\w+)"\} (\d+)$/gm)].map(
      ([, result = "", count]) => [result, Number(count)],
    ),
  );
}

test("a collector that refuses is logged once per outage and counted, and requests are not affected", async (t) => {
  const env = { OTEL_BSP_MAX_EXPORT_BATCH_SIZE: "2", OTEL_BSP_SCHEDULE_DELAY: "2000000" };
  const act = async ({ gateway, receiver }: Scene): Promise<void> => {
    const outages = (): number =>
      gateway.lines.filter((line) => line.startsWith("traces cannot be exported")).length;
    // Two spans are one batch and one post. Its answer has been processed when the next batch is sent.
    const ask = async (posts: number): Promise<void> => {
      await get(`${gateway.url}/open/a`);
      await receiver.posted(posts);
    };
    receiver.answerWith(400);
    await ask(1);
    await ask(2);
    receiver.answerWith(200);
    await ask(3);
    assert.equal(outages(), 1);
    receiver.answerWith(400);
    await ask(4);
    await ask(5);
    assert.equal(outages(), 2);
    const { failed = 0, exported = 0, dropped } = await spanCounts(gateway);
    assert.ok(failed >= 6 && failed <= 8, `failed ${failed}`);
    assert.equal(exported, 2);
    assert.equal(dropped, 0);
  };
  await traced(t, act, { env });
});

test("spans beyond the queue are dropped and counted", async (t) => {
  const env = { OTEL_BSP_MAX_QUEUE_SIZE: "3", OTEL_BSP_SCHEDULE_DELAY: "2000000" };
  const act = async ({ gateway, receiver }: Scene): Promise<void> => {
    const { promise, resolve } = Promise.withResolvers<void>();
    receiver.hold(promise);
    // Three are sent at once as a full batch, and three fit into the queue.
    for (let count = 0; count < 8; count++) await (await fetch(`${gateway.url}/no`)).arrayBuffer();
    assert.equal((await spanCounts(gateway))["dropped"], 2);
    resolve();
  };
  assert.equal((await traced(t, act, { env })).length, 6);
});

test("without the variables, there are no spans and the client's trace is forwarded unchanged", async (t) => {
  environment(t, {});
  await using upstream = await httpUpstream(mirror);
  await using gateway = await startTestGateway({ pipeline: pipelineTo(upstream.port) });
  const headers = { traceparent: sampled, tracestate: "rojo=1" };
  assert.deepEqual(await get(`${gateway.url}/open/a`, headers), headers);
  assert.deepEqual(await spanCounts(gateway), {});
});
