/** Tests `sluice explain`, /explain and X-Sluice-Trace with a whole gateway. */
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { describe, it } from "node:test";
import type { Capability } from "sluice-gateway/services";
import { explain } from "../../src/commands/explain.ts";
import type { CommandContext } from "../../src/commands/command.ts";
import type { Explanation } from "../../src/pipeline/observe/explanation.ts";
import { manualClock } from "../../src/testing/clock.ts";
import {
  startTestGateway,
  type TestGateway,
  type TestGatewayOptions,
} from "../../plugins/contracts/testing.ts";
import { ask, type Answer, type Sent } from "./ask.ts";
import { closed, listening } from "./rpc-node.ts";

const pipeline = `version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
plans:
  free: { rps: 1000, includedCu: 1, overageUsdPerCu: none }
  enterprise: { rps: 1000 }
tools: [docs-search]
lists:
  edge: [request-id, { authenticate: { failures: 1 } }, rate-limit]
unmatched: [request-id]
routes:
  - { path: /open, methods: [GET], run: [{ use: edge }, { authorize: { require: key }, mode: shadow }], to: discovery }
  - { path: /keyed, methods: [GET], run: [{ use: edge }, { authorize: { require: key } }, { meter: { price: 600 } }], to: discovery }
  - { path: /some, methods: [GET], run: [{ use: edge }, { authorize: { require: inference }, when: { header: { x-a: "*" } } }], to: discovery }
  - path: /body
    methods: [POST]
    run: [{ use: edge }, { validate: { bodyBytes: 10, body: { type: object } } }]
    to: discovery
  - { path: /rpc, methods: [POST], run: [{ use: edge }, { authorize: { require: key } }, meter], to: tool-rpc }
  - { path: /limited, methods: [GET], run: [request-id, authenticate, { rate-limit: { rps: 0.5, burst: 1 } }], to: discovery }
`;

const start = (more: Partial<TestGatewayOptions> = {}): Promise<TestGateway> =>
  startTestGateway({ pipeline, ...more });

let requests = 0;

async function send(
  { url }: TestGateway,
  path: string,
  { headers, ...sent }: Sent = {},
): Promise<Answer & { readonly id: string }> {
  const id = `r/${++requests}?x=1&y`;
  const answer = await ask(url + path, { ...sent, headers: { "x-request-id": id, ...headers } });
  return Object.assign(answer, { id });
}

async function explanationsOf(
  { adminUrl }: TestGateway,
  id: string,
): Promise<readonly Explanation[]> {
  const answer = await ask(`${adminUrl}/explain?id=${encodeURIComponent(id)}`);
  if (answer.status === 404) return [];
  assert.equal(answer.status, 200);
  // The tests below check this shape.
  return answer.json.exchanges;
}

async function only(gateway: TestGateway, id: string): Promise<Explanation> {
  const [explanation, ...others] = await explanationsOf(gateway, id);
  assert.ok(explanation !== undefined && others.length === 0);
  return explanation;
}

const did = ({ steps }: Explanation): string[] => steps.map((one) => `${one.step}: ${one.did}`);

describe("/explain", () => {
  it("shows a successful exchange: the caller, the result and the time of each step", async () => {
    await using gateway = await start();
    const { id } = await send(gateway, "/keyed", { key: gateway.key });
    const explanation = await only(gateway, id);
    const { steps, at, ms, ...rest } = explanation;
    assert.deepEqual(rest, {
      request_id: id,
      method: "GET",
      route: "/keyed",
      status: 200,
      outcome: "complete",
      key_id: gateway.keyId,
      workspace_id: gateway.workspaceId,
    });
    assert.ok(!Number.isNaN(Date.parse(at)) && ms > 0);
    assert.deepEqual(
      steps.map(({ step }) => step),
      ["request-id", "authenticate", "rate-limit", "authorize", "meter", "discovery"],
    );
    assert.ok(steps.every((step) => (step.ms ?? -1) >= 0));
    assert.deepEqual(new Set(steps.slice(0, -1).map((step) => step.did)), new Set(["passed"]));
    assert.equal(steps.at(-1)?.did, "replied");
  });

  it("shows which step refused, would have refused, was skipped or was not reached", async () => {
    await using gateway = await start();
    const refused = await send(gateway, "/keyed");
    assert.equal(refused.status, 401);
    const explanation = await only(gateway, refused.id);
    assert.equal(explanation.code, "GATEWAY_UNAUTHORIZED");
    assert.equal(explanation.outcome, "replied");
    assert.deepEqual(did(explanation).slice(2), [
      "rate-limit: passed",
      "authorize: refused",
      "meter: not reached",
      "discovery: not reached",
    ]);
    const shadowed = await send(gateway, "/open");
    assert.equal(did(await only(gateway, shadowed.id))[3], "authorize: would refuse");
    const skipped = await send(gateway, "/some");
    assert.equal(did(await only(gateway, skipped.id))[3], "authorize: skipped");
    const tooLarge = await send(gateway, "/body", { body: "x".repeat(11) });
    assert.equal(tooLarge.status, 413);
    assert.deepEqual(did(await only(gateway, tooLarge.id)).slice(3), [
      "validate: passed",
      "(core): refused",
      "discovery: not reached",
    ]);
    const unknown = await send(gateway, "/nowhere");
    assert.deepEqual(did(await only(gateway, unknown.id)), [
      "request-id: passed",
      "(unmatched): refused",
    ]);
  });

  it("shows the rate limit that a request exceeded: scope, usage, limit, and when there is room again", async () => {
    const clock = manualClock();
    await using gateway = await start({ clock, account: { createdAt: clock.now() } });
    const key = gateway.key;
    assert.equal((await send(gateway, "/limited", { key })).status, 200);
    clock.advance(500);
    const { id, status } = await send(gateway, "/limited", { key });
    assert.equal(status, 429);
    assert.deepEqual((await only(gateway, id)).limit, {
      scope: "key",
      unit: "requests",
      used: 1,
      limit: 1,
      clears_at: new Date(clock.now() + 1_500).toISOString(),
    });
  });

  it("shows that an address is blocked because it tries many keys", async () => {
    await using gateway = await start();
    const guess = (n: number) =>
      send(gateway, "/keyed", { key: `gateway_dev_${String(n).repeat(32)}` });
    assert.equal((await guess(1)).status, 401);
    const { id, status } = await guess(2);
    assert.equal(status, 429);
    const { limit } = await only(gateway, id);
    assert.partialDeepStrictEqual(limit, {
      scope: "failed-keys",
      unit: "requests",
      used: 1,
      limit: 1,
    });
    assert.ok(Date.parse(limit?.clears_at ?? "") > Date.now());
  });

  it("shows the window or plan that is used up, and when it has room again", async () => {
    const clock = manualClock();
    await using gateway = await start({
      clock,
      account: { cuLimit24hMilli: 1_000, createdAt: clock.now() },
    });
    assert.equal((await send(gateway, "/keyed", { key: gateway.key })).status, 200);
    const dayRefused = await send(gateway, "/keyed", { key: gateway.key });
    assert.equal(dayRefused.status, 429);
    const day = await only(gateway, dayRefused.id);
    assert.equal(did(day)[4], "meter: refused");
    assert.deepEqual(day.limit, {
      scope: "24h",
      unit: "milli-CU",
      used: 600,
      limit: 1_000,
      clears_at: "2026-01-16T12:01:00.000Z",
    });
    const free = await gateway.issue({ plan: "free", createdAt: clock.now() });
    assert.equal((await send(gateway, "/keyed", { key: free.key })).status, 200);
    const planRefused = await send(gateway, "/keyed", { key: free.key });
    const plan = await only(gateway, planRefused.id);
    assert.deepEqual(plan.limit, {
      scope: "plan",
      unit: "milli-CU",
      used: 600,
      limit: 1_000,
      clears_at: "2026-02-01T00:00:00.000Z",
    });
    clock.jump(20 * 86_400_000);
    assert.equal((await send(gateway, "/keyed", { key: free.key })).status, 200);
    assert.deepEqual(await only(gateway, planRefused.id), plan, "the month that is over stays so");
    assert.deepEqual(await only(gateway, dayRefused.id), day);
  });

  it("shows the limit that refused one call of an array whose other calls succeeded", async () => {
    const clock = manualClock();
    await using gateway = await start({
      clock,
      account: { cuLimit24hMilli: 99, createdAt: clock.now() },
    });
    const list = { jsonrpc: "2.0", id: 1, method: "tools.list" };
    const params = { tool: "docs_search", params: { query: "credit" } };
    const search = { jsonrpc: "2.0", id: 2, method: "tools.call", params };
    const { id, status } = await send(gateway, "/rpc", {
      key: gateway.key,
      body: [list, search],
    });
    assert.equal(status, 200);
    const explanation = await only(gateway, id);
    assert.equal(explanation.code, "GATEWAY_CU_LIMIT_EXCEEDED");
    assert.deepEqual(explanation.calls, {
      names: ["tools.list", "docs_search"],
      items: 2,
      failed: 1,
    });
    assert.equal(explanation.steps.at(-1)?.did, "replied");
    assert.deepEqual(explanation.limit, { scope: "24h", unit: "milli-CU", used: 0, limit: 99 });
  });

  it("shows all exchanges of one id, newest first, and answers 404 if there is none", async () => {
    const clock = manualClock();
    await using gateway = await start({ clock, account: { createdAt: clock.now() } });
    const headers = { "x-request-id": "same" };
    const asked = [{ path: "/open" }, { path: "/keyed" }, { path: "/keyed", key: gateway.key }];
    for (const { path, ...more } of asked) {
      await send(gateway, path, { headers, ...more });
      clock.advance(1);
    }
    const explanation = await explanationsOf(gateway, "same");
    assert.deepEqual(
      explanation.map(({ status, route }) => [status, route]),
      [
        [200, "/keyed"],
        [401, "/keyed"],
        [200, "/open"],
      ],
    );
    assert.deepEqual(await explanationsOf(gateway, "another"), []);
    assert.equal((await fetch(`${gateway.adminUrl}/explain`)).status, 404);
  });

  it("keeps refusals after thousands of successful exchanges, but not for ever", async () => {
    await using gateway = await start();
    const { id } = await send(gateway, "/keyed");
    const first = await send(gateway, "/open", { key: gateway.key });
    for (let n = 0; n < 2_048; n += 64) {
      const { key } = gateway;
      await Promise.all(Array.from({ length: 64 }, () => send(gateway, "/open", { key })));
    }
    assert.deepEqual(await explanationsOf(gateway, first.id), []);
    assert.equal((await explanationsOf(gateway, id)).length, 1);
  });

  it("keeps nothing that a client has sent except the request id", async () => {
    await using gateway = await start();
    const secret = "gateway_dev_0123456789abcdef0123456789abcdef";
    const headers = { authorization: `Bearer ${secret}`, "x-a": secret, cookie: secret };
    const { id } = await send(gateway, `/keyed?key=${secret}`, { headers });
    const sent = await send(gateway, "/body", { body: `{"${secret.slice(-5)}"` });
    for (const one of [id, sent.id]) {
      const text = JSON.stringify(await only(gateway, one));
      assert.doesNotMatch(text, /0123456789abcdef|bcdef/);
    }
  });
});

describe("X-Sluice-Trace", () => {
  const asked = { "x-sluice-trace": "1" };
  const admin: readonly Capability[] = ["platform:admin"];

  it("sends a platform administrator the explanation in the answer, with its times in Server-Timing", async () => {
    await using gateway = await start({ account: { capabilities: admin } });
    const { id, headers } = await send(gateway, "/keyed", { key: gateway.key, headers: asked });
    // The gateway itself writes this header.
    const explanation = JSON.parse(String(headers["x-sluice-trace"])) as Explanation;
    assert.equal(explanation.request_id, id);
    assert.equal(explanation.outcome, undefined);
    assert.equal(explanation.steps.at(-1)?.did, "replied");
    const timing = String(headers["server-timing"]);
    assert.match(timing, /^request-id;dur=[\d.]+;desc="passed", authenticate;dur=/);
    assert.match(timing, /, discovery;dur=[\d.]+;desc="replied", total;dur=[\d.]+$/);
  });

  it("is sent with the head of a stream, and the command shows the rest", async () => {
    const upstream = createServer((_, res) => {
      res.writeHead(200, { "content-type": "text/plain" });
      res.write("first ");
      setImmediate(() => res.end("last"));
    });
    const url = await listening(upstream);
    const streams = `${pipeline}  - { path: /stream, methods: [GET], run: [{ use: edge }], to: { forward: { upstream: up } } }
upstreams: { up: { urls: "${url}" } }
`;
    try {
      await using gateway = await start({ pipeline: streams, account: { capabilities: admin } });
      const { id, headers } = await send(gateway, "/stream", { key: gateway.key, headers: asked });
      const explanation = JSON.parse(String(headers["x-sluice-trace"])) as Explanation;
      assert.equal(explanation.steps.at(-1)?.ms, undefined);
      assert.match(String(headers["server-timing"]), /rate-limit;dur=.*total;dur=/);
      const rest = await only(gateway, id);
      assert.equal(rest.outcome, "complete");
      assert.ok((rest.steps.at(-1)?.ms ?? -1) >= 0);
    } finally {
      await closed(upstream);
    }
  });

  it("is ignored for every other caller, and for any other value", async () => {
    await using gateway = await start({
      account: { capabilities: ["workspace:admin", "inference"] },
    });
    const other = await gateway.issue({ capabilities: admin });
    for (const sent of [
      { key: gateway.key, headers: asked },
      { headers: asked },
      { key: other.key, headers: { "x-sluice-trace": "true" } },
      { key: other.key },
    ]) {
      const { headers } = await send(gateway, "/open", sent);
      assert.equal(headers["x-sluice-trace"], undefined);
      assert.equal(headers["server-timing"], undefined);
    }
  });
});

describe("sluice explain", () => {
  async function run(
    gateway: TestGateway,
    args: readonly string[],
    more: { readonly admin?: string; readonly json?: boolean } = {},
  ): Promise<{ code: 0 | 1; out: string[]; err: string[] }> {
    const out: string[] = [];
    const err: string[] = [];
    const context: CommandContext = {
      env: { PORT: "0", ADMIN_PORT: new URL(gateway.adminUrl).port, DATA_DIR: gateway.folder },
      print: (line) => void out.push(line),
      printToStderr: (line) => void err.push(line),
      configFile: `${gateway.folder}/pipeline.yaml`,
      signal: new AbortController().signal,
      json: more.json === true,
    };
    const values = more.admin === undefined ? {} : { admin: more.admin };
    return { code: await explain.run(context, values, args), out, err };
  }

  it("prints what the gateway of pipeline.yaml knows, as text or as JSON", async () => {
    await using gateway = await start({ account: { cuLimit24hMilli: 1 } });
    const { id } = await send(gateway, "/keyed", { key: gateway.key });
    const { code, out } = await run(gateway, [id]);
    assert.equal(code, 0);
    const [head = "", what = "", limit = "", ...steps] = out;
    assert.ok(head.startsWith(`${id}  20`) && head.endsWith("  GET /keyed"));
    assert.match(
      what,
      /^ {2}429 GATEWAY_CU_LIMIT_EXCEEDED \(24h\), replied, [\d.]+ ms, key_\w+ of ws_\w+$/,
    );
    assert.match(limit, /^ {2}limit 24h: 0 of 1 milli-CU used, /);
    assert.match(steps[4] ?? "", /^ {4}meter {9}refused {7}[\d.]+ ms$/);
    assert.equal(steps[5], "    discovery     not reached");
    const json = await run(gateway, [id], { json: true, admin: gateway.adminUrl });
    assert.deepEqual(JSON.parse(json.out.join("")), {
      exchanges: await explanationsOf(gateway, id),
    });
  });

  it("reports that a request is unknown, or that no gateway answers", async () => {
    await using gateway = await start();
    const unknown = await run(gateway, ["nobody"]);
    assert.equal(unknown.code, 1);
    assert.match(unknown.err.join(), /has no record of request nobody/);
    const nowhere = await run(gateway, ["nobody"], { admin: "http://127.0.0.1:9" });
    assert.equal(nowhere.code, 1);
    assert.match(
      nowhere.err.join(),
      /^no answer from http:\/\/127\.0\.0\.1:9: .*Pass another one with --admin\./,
    );
    await assert.rejects(run(gateway, []), /missing argument REQUEST_ID/);
    await assert.rejects(run(gateway, ["a", "b"]), /unexpected argument/);
  });
});
