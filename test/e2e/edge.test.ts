/** The steps that every request passes, in a whole gateway: their order and their answers. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { join } from "node:path";
import { test } from "node:test";
import { followed, withFolderAccounts } from "../plugins/billing/accounts/open-accounts.ts";
import { manualClock, type ManualClock } from "../../src/testing/clock.ts";
import {
  startTestGateway,
  type TestGateway,
  type WantedKey,
} from "../../plugins/contracts/testing.ts";
import { ask, type Answer, type Sent } from "./ask.ts";
import { closed, listening, startRpcNode } from "./rpc-node.ts";

const pipelineOf = (upstream: string, changes: Record<string, string>): string => `
version: 1
server: { host: 127.0.0.1, port: "\${PORT}", trustProxy: [127.0.0.1], drainDelaySeconds: 0 }
admin: { host: 127.0.0.1, port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
upstreams:
  echo: { urls: "${upstream}" }
${changes["upstream"] ?? ""}
lists:
  edge: [request-id, { access-log: { file: access.log } }, ${changes["authenticate"] ?? "authenticate"}, ${changes["rate-limit"] ?? "rate-limit"}]
unmatched: [request-id, { access-log: { file: access.log } }, rate-limit]
routes:
  - { path: /public, methods: [GET], run: [{ use: edge }], to: { forward: { upstream: echo } } }
  - { path: /keyed, methods: [GET], run: [{ use: edge }, { authorize: { require: key } }], to: { forward: { upstream: echo } } }
  - { path: /ledger, methods: [GET], run: [{ use: edge }, ${changes["authorize"] ?? '{ authorize: { require: "ledger:read" } }'}], to: { forward: { upstream: echo } } }
  - path: /checked
    methods: [POST]
    run:
      - use: edge
      - validate:
          bodyBytes: 1000
          body: { type: object, properties: { n: { type: integer } }, required: [n] }
          query: { type: object, properties: { page: { type: integer } } }
    to: { forward: { upstream: echo } }
${changes["route"] ?? ""}
`;

interface TestRequest extends Pick<Sent, "method" | "headers"> {
  readonly authorization?: string;
  /** The address of the client, as a trusted proxy reports it. */
  readonly from?: string;
  readonly body?: string;
}

interface Edge extends AsyncDisposable {
  readonly gateway: TestGateway;
  readonly clock: ManualClock;
  readonly upstreamCalls: () => number;
  readonly ask: (path: string, options?: TestRequest) => Promise<Answer>;
  readonly logged: () => Promise<Record<string, unknown>[]>;
}

/** A gateway whose clock does not advance, so that buckets hold exactly what the test leaves in them. */
async function startEdge(
  options: { changes?: Record<string, string>; account?: WantedKey } = {},
): Promise<Edge> {
  let calls = 0;
  const upstream = createServer((req, res) => {
    calls++;
    if (req.url === "/public?hang") return;
    req.resume().on("end", () => res.end("hello"));
  });
  const clock = manualClock();
  const gateway = await startTestGateway({
    pipeline: pipelineOf(await listening(upstream), options.changes ?? {}),
    clock,
    account: options.account ?? {},
  });
  let stopped = false;
  const stop = async (): Promise<void> => {
    if (stopped) return;
    stopped = true;
    await gateway.gateway.stop();
  };
  return {
    gateway,
    clock,
    upstreamCalls: () => calls,
    ask: (path, { authorization, from, headers, ...wanted } = {}) =>
      ask(gateway.url + path, {
        method: "GET",
        ...wanted,
        headers: {
          ...(authorization !== undefined && { authorization }),
          ...(from !== undefined && { "x-forwarded-for": from }),
          ...headers,
        },
      }),
    async logged() {
      await stop();
      return readFileSync(join(gateway.folder, "access.log"), "utf8")
        .split("\n")
        .slice(0, -1)
        .map((line) => JSON.parse(line) as Record<string, unknown>);
    },
    async [Symbol.asyncDispose]() {
      await gateway[Symbol.asyncDispose]();
      await closed(upstream);
    },
  };
}

const bearer = (key: string): string => `Bearer ${key}`;
const hex = "0123456789abcdef0123456789abcdef";
const unknownKey = `gateway_dev_${hex}`;

/** Asserts what all refusals share: the canonical envelope, JSON, and the id of the request. */
function assertRefused(
  answer: Answer,
  status: number,
  error: string,
  code: string,
  reason?: string,
): void {
  assert.equal(answer.status, status, answer.text);
  // A refusal for a missing capability names it.
  const details = status === 403 ? { capability: "ledger:read" } : reason && { reason };
  assert.deepEqual(answer.json, { error, error_code: code, ...(details && { details }) });
  assert.equal(answer.headers["content-type"], "application/json");
  assert.ok(answer.headers["x-request-id"]);
}

const unauthorized = (answer: Answer, message: string): void => {
  assertRefused(answer, 401, message, "GATEWAY_UNAUTHORIZED");
  assert.equal(answer.headers["www-authenticate"], 'Bearer realm="gateway"');
};
const tooMany = (answer: Answer): void => {
  assertRefused(answer, 429, "too many requests", "GATEWAY_RATE_LIMITED");
  assert.equal(answer.headers["retry-after"], "1");
};

test("the authentication table: each trigger has its message", async () => {
  await using edge = await startEdge();
  const { gateway, clock } = edge;
  const revoked = await gateway.issue({});
  const expired = await gateway.issue({ expiresAt: clock.now() + 1000 });
  assert.equal((await edge.ask("/keyed", { authorization: bearer(revoked.key) })).status, 200);
  assert.equal((await edge.ask("/keyed", { authorization: bearer(expired.key) })).status, 200);
  await withFolderAccounts(join(gateway.folder, "data"), (store) =>
    store.revokeKey(revoked.keyId, { actor: "test", at: clock.now() }),
  );
  clock.advance(1000);
  await followed(gateway.gateway);
  const format = "invalid authorization format";
  const table: readonly [string | undefined, string][] = [
    [undefined, "missing authorization header"],
    [gateway.key, format],
    [`Token ${gateway.key}`, format],
    [`bearer ${gateway.key}`, format],
    [`BEARER ${gateway.key}`, format],
    [`Bearer  ${gateway.key}`, format],
    [`Bearer\t${gateway.key}`, format],
    [`Bearer ${gateway.key}x`, format],
    [`Bearer ${gateway.key} x`, format],
    [`Bearer ${gateway.key.toUpperCase()}`, format],
    ["Bearer", format],
    ["Bearer gateway_dev_123", format],
    [`Bearer gateway_test_${hex}`, format],
    [`Bearer other_dev_${hex}`, format],
    ["Basic dTpw", format],
    [bearer(gateway.key.replace("gateway_dev_", "gateway_prod_")), "unauthorized"],
    [bearer(gateway.key.replace("gateway_dev_", "gateway_stage_")), "unauthorized"],
    [bearer(unknownKey), "unauthorized"],
    [bearer(revoked.key), "unauthorized"],
    [bearer(expired.key), "api key has expired"],
  ];
  for (const [row, [authorization, message]] of table.entries()) {
    // Each row has its own address, so that no bucket runs out of tokens.
    const from = `198.51.100.${row}`;
    const answer = await edge.ask("/keyed", {
      from,
      ...(authorization !== undefined && { authorization }),
    });
    unauthorized(answer, message);
  }
  assert.equal((await edge.ask("/keyed", { authorization: bearer(gateway.key) })).status, 200);
});

test("a key without the capability gets 403 and a key with it passes; the upstream sees only the second request", async () => {
  await using edge = await startEdge({
    account: { capabilities: ["docs:read", "platform:admin"] },
  });
  const able = await edge.gateway.issue({ capabilities: ["ledger:read"] });
  const denied = await edge.ask("/ledger", { authorization: bearer(edge.gateway.key) });
  assertRefused(denied, 403, "permission denied", "GATEWAY_PERMISSION_DENIED");
  assert.equal(edge.upstreamCalls(), 0);
  const passed = await edge.ask("/ledger", { authorization: bearer(able.key) });
  assert.deepEqual([passed.status, passed.text], [200, "hello"]);
});

test("the rate table: an override lowers a key's rate and never raises it", async () => {
  await using edge = await startEdge({ account: { plan: "developer", rpsLimit: 3 } });
  const higher = await edge.gateway.issue({ plan: "free", rpsLimit: 100 });
  for (const [key, burst] of [
    [edge.gateway.key, 6],
    [higher.key, 4],
  ] as const) {
    for (let i = 0; i < burst; i++) {
      assert.equal((await edge.ask("/keyed", { authorization: bearer(key) })).status, 200);
    }
    tooMany(await edge.ask("/keyed", { authorization: bearer(key) }));
  }
});

test("the rate table: without a valid key, an address may send five requests at once, regardless of the header", async () => {
  await using edge = await startEdge();
  const from = "203.0.113.5";
  const first = await edge.ask("/public", { from });
  assert.equal(first.status, 200);
  assert.equal(first.headers["ratelimit-policy"], '"address";q=5;w=1');
  assert.equal(first.headers["ratelimit"], '"address";r=4;t=1');
  assert.equal((await edge.ask("/keyed", { from })).status, 401);
  assert.equal((await edge.ask("/keyed", { from, authorization: "Token x" })).status, 401);
  assert.equal((await edge.ask("/keyed", { from, authorization: bearer(unknownKey) })).status, 401);
  assert.equal((await edge.ask("/public", { from, authorization: "Token x" })).status, 200);
  for (const path of ["/public", "/keyed", "/ledger", "/nowhere"]) {
    tooMany(await edge.ask(path, { from }));
  }
  tooMany(await edge.ask("/keyed", { from, authorization: bearer(unknownKey) }));
  tooMany(await edge.ask("/keyed", { from, method: "DELETE" }));
  const other = await edge.ask("/keyed", { from: "203.0.113.6" });
  unauthorized(other, "missing authorization header");
  const valid = await edge.ask("/keyed", { from, authorization: bearer(edge.gateway.key) });
  assert.equal(valid.status, 200, "a valid key takes from its own bucket only");
  edge.clock.advance(200);
  unauthorized(await edge.ask("/keyed", { from }), "missing authorization header");
});

test("429 takes precedence over 401, 403, 404 and 405; 404 and 405 over 401; 401 over 403", async () => {
  await using edge = await startEdge({ account: { plan: "free", capabilities: [] } });
  const authorization = bearer(edge.gateway.key);
  // While the bucket has tokens.
  assertRefused(
    await edge.ask("/ledger", { authorization }),
    403,
    "permission denied",
    "GATEWAY_PERMISSION_DENIED",
  );
  assertRefused(
    await edge.ask("/nowhere", { from: "203.0.113.1" }),
    404,
    "not found",
    "GATEWAY_NOT_FOUND",
  );
  const wrongMethod = await edge.ask("/ledger", { method: "POST", from: "203.0.113.2" });
  const reason = "method_not_allowed";
  assertRefused(wrongMethod, 405, "method not allowed", "GATEWAY_INVALID_PARAMS", reason);
  assert.equal(wrongMethod.headers["allow"], "GET, HEAD");
  unauthorized(await edge.ask("/ledger", { from: "203.0.113.3" }), "missing authorization header");
  // After the bucket has run out of tokens.
  for (let i = 0; i < 3; i++) await edge.ask("/ledger", { authorization });
  tooMany(await edge.ask("/ledger", { authorization }));
  const from = "203.0.113.4";
  for (let i = 0; i < 5; i++) assert.equal((await edge.ask("/nowhere", { from })).status, 404);
  tooMany(await edge.ask("/nowhere", { from }));
  tooMany(await edge.ask("/ledger", { from, method: "POST" }));
  tooMany(await edge.ask("/ledger", { from }));
});

test("health checks take no token and need no key", async () => {
  await using edge = await startEdge();
  for (let i = 0; i < 10; i++) assert.equal((await edge.ask("/healthz")).status, 200);
  assert.equal((await edge.ask("/public")).headers["ratelimit"], '"address";r=4;t=1');
});

test("every answer carries the client's request id, or a new one", async () => {
  await using edge = await startEdge({ account: { capabilities: [] } });
  const authorization = bearer(edge.gateway.key);
  const json = { "content-type": "application/json" };
  const answers: readonly [number, string, TestRequest][] = [
    [200, "/public", {}],
    [200, "/keyed", { authorization }],
    [401, "/keyed", {}],
    [403, "/ledger", { authorization }],
    [404, "/nowhere", {}],
    [405, "/public", { method: "PUT" }],
    [400, "/checked", { method: "POST", body: "{", headers: json }],
    [400, "/checked", { method: "POST", body: "{}", headers: json }],
    [413, "/checked", { method: "POST", body: "1".repeat(1001), headers: json }],
  ];
  const ids = new Set<unknown>();
  for (const [row, [status, path, options]] of answers.entries()) {
    const from = `198.51.100.${row}`;
    const id = `client-${row}`;
    const headers = { ...options.headers, "x-request-id": id };
    const echoed = await edge.ask(path, { ...options, from, headers });
    assert.deepEqual([echoed.status, echoed.headers["x-request-id"]], [status, id], path);
    const made = await edge.ask(path, { ...options, from });
    assert.match(String(made.headers["x-request-id"]), /^[0-9a-f-]{36}$/);
    ids.add(made.headers["x-request-id"]);
  }
  assert.equal(ids.size, answers.length);
  const from = "203.0.113.9";
  for (let i = 0; i < 5; i++) await edge.ask("/public", { from });
  const refused = await edge.ask("/public", { from, headers: { "x-request-id": "mine" } });
  tooMany(refused);
  assert.equal(refused.headers["x-request-id"], "mine");
  const forged = await edge.ask("/public", { headers: { "x-request-id": "a b" } });
  assert.match(String(forged.headers["x-request-id"]), /^[0-9a-f-]{36}$/);
});

test("after many unknown keys, the next one from the same address or IPv6 network gets 429, and other callers do not", async () => {
  const authenticate = "{ authenticate: { failures: 3 } }";
  await using edge = await startEdge({ changes: { authenticate } });
  const guess = (from: string) => edge.ask("/keyed", { from, authorization: bearer(unknownKey) });
  for (const [of, other] of [
    [() => "203.0.113.5", "203.0.113.6"],
    [(n: number) => `2001:db8:0:1:${n}::9`, "2001:db8:0:2::1"],
  ] as const) {
    for (let i = 0; i < 3; i++) unauthorized(await guess(of(i)), "unauthorized");
    edge.clock.advance(1000);
    const blocked = await guess(of(9));
    tooMany(blocked);
    assert.equal(blocked.headers["ratelimit-policy"], '"failed-keys";q=3;w=60');
    const from = of(9);
    const valid = await edge.ask("/keyed", { from, authorization: bearer(edge.gateway.key) });
    assert.equal(valid.status, 200);
    unauthorized(await edge.ask("/keyed", { from }), "missing authorization header");
    unauthorized(await guess(other), "unauthorized");
  }
});

test("a limit in shadow mode refuses no request, counts what it would have refused, and shows nothing to clients", async () => {
  const rateLimit = "{ rate-limit: {}, mode: shadow }";
  await using edge = await startEdge({ changes: { "rate-limit": rateLimit } });
  for (let i = 0; i < 8; i++) {
    const answer = await edge.ask("/public");
    assert.equal(answer.status, 200);
    assert.equal(answer.headers["ratelimit"], undefined);
  }
  const metrics = await (await fetch(`${edge.gateway.adminUrl}/metrics`)).text();
  assert.match(metrics, /^sluice_shadow_refusals_total\{route="\/public",step="rate-limit"\} 3$/m);
});

test("the access log has one line for every exchange, including refused, unmatched and abandoned ones", async () => {
  await using edge = await startEdge({ account: { capabilities: [] } });
  const { gateway } = edge;
  const authorization = bearer(gateway.key);
  const id = (requestId: string): Record<string, string> => ({ "x-request-id": requestId });
  const from = "203.0.113.5";
  await edge.ask("/keyed?secret=hidden", { authorization, headers: id("passed") });
  await edge.ask("/keyed", { from, headers: id("no-key") });
  await edge.ask("/ledger", { authorization, headers: id("no-capability") });
  await edge.ask("/nowhere", { from, headers: id("unknown-path") });
  await edge.ask("/public", { from, method: "POST", headers: id("wrong-method") });
  await edge.ask("/public", { from, headers: id("fourth") });
  await edge.ask("/public", { from, headers: id("fifth") });
  await edge.ask("/public", { from, headers: id("limited") });
  await abandon(edge, "/public?hang", id("abandoned"));
  const lines = await edge.logged();
  const summary = lines.map((line) => [
    line["requestId"],
    line["status"],
    line["outcome"],
    line["code"],
  ]);
  assert.deepEqual(summary, [
    ["passed", 200, "complete", undefined],
    ["no-key", 401, "replied", "GATEWAY_UNAUTHORIZED"],
    ["no-capability", 403, "replied", "GATEWAY_PERMISSION_DENIED"],
    ["unknown-path", 404, "complete", "GATEWAY_NOT_FOUND"],
    ["wrong-method", 405, "complete", "GATEWAY_INVALID_PARAMS"],
    ["fourth", 200, "complete", undefined],
    ["fifth", 200, "complete", undefined],
    ["limited", 429, "replied", "GATEWAY_RATE_LIMITED"],
    ["abandoned", 0, "clientLeft", undefined],
  ]);
  const [passed, , , unmatched] = lines;
  assert.equal(passed?.["keyId"], gateway.keyId);
  assert.equal(passed?.["workspaceId"], gateway.workspaceId);
  assert.equal(passed?.["route"], "/keyed");
  assert.equal(passed?.["path"], "/keyed");
  assert.equal(passed?.["bodyBytes"], 5);
  assert.equal(passed?.["address"], "127.0.0.1");
  assert.equal(unmatched?.["route"], "(unmatched)");
  assert.equal(unmatched?.["path"], "/nowhere");
  assert.equal(unmatched?.["address"], from);
  const text = JSON.stringify(lines);
  assert.ok(!text.includes("hidden") && !text.includes(gateway.key.slice(-32)));
});

test("the line of a metered call has its cost, and the line of a free call has none", async () => {
  await using node = await startRpcNode();
  await using edge = await startEdge({
    changes: {
      upstream: `  ledger: { urls: "${node.url}" }`,
      route:
        '  - { path: /rpc, methods: [POST], run: [{ use: edge }, { authorize: { require: "ledger:read" } }, meter], to: { ledger-rpc: { upstream: ledger } } }',
    },
  });
  const call = (body: string) =>
    edge.ask("/rpc", {
      method: "POST",
      authorization: bearer(edge.gateway.key),
      headers: { "content-type": "application/json" },
      body,
    });
  const named = (method: string) => `{"jsonrpc":"2.0","id":1,"method":"${method}","params":[]}`;
  const charged = await call(named("chain_getFinalizedHead"));
  assert.equal(charged.headers["x-used-cu-milli"], "100");
  await call(`[${named("chain_getFinalizedHead")},${named("chain_getHeader")}]`);
  await call(named("author_submitExtrinsic"));
  const costs = (await edge.logged()).map((line) => line["costMilli"]);
  assert.deepEqual(costs, [100, 300, undefined]);
});

/** Sends a request whose upstream never answers, leaves, and waits until the gateway has noticed. */
async function abandon(edge: Edge, path: string, headers: Record<string, string>): Promise<void> {
  const before = edge.upstreamCalls();
  const req = request(edge.gateway.url + path, { agent: false, headers });
  req.on("error", () => {});
  req.end();
  while (edge.upstreamCalls() === before) await new Promise(setImmediate);
  req.destroy();
  const metric = /^sluice_outcomes_total\{route="\/public",outcome="clientLeft"\} 1$/m;
  for (;;) {
    const metrics = await fetch(`${edge.gateway.adminUrl}/metrics`);
    if (metric.test(await metrics.text())) return;
  }
}
