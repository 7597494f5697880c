/** Workspaces with a whole gateway: the credit of a plan, month by month, and who may change it. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import type { Capability } from "sluice-gateway/services";
import { readUsage } from "../../plugins/billing/metering/read-usage.ts";
import { manualClock } from "../../src/testing/clock.ts";
import {
  startTestGateway,
  type TestGateway,
  type TestGatewayOptions,
  type TestKey,
} from "../../plugins/contracts/testing.ts";
import { ask as send, type Sent } from "./ask.ts";
import { shipped } from "./shipped-gateway.ts";

/** A call costs 500 milli-CU. */
const pipeline = `
version: 1
server: { port: "\${PORT}", trustProxy: [127.0.0.1] }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
plans:
  free: { rps: 1000, includedCu: 1, overageUsdPerCu: none }
  startup: { rps: 1000, includedCu: 2, overageUsdPerCu: 0.001 }
lists:
  edge: [request-id, authenticate, rate-limit]
  workspace: [{ use: edge }, { authorize: { require: "workspace:admin" } }]
unmatched: [request-id]
routes:
  - { path: /call, methods: [GET], run: [{ use: edge }, { authorize: { require: key } }, { meter: { price: 500 } }], to: discovery }
  - { path: "/{id}", methods: [GET], run: [{ use: workspace }], to: { workspaces: { do: show } } }
  - { path: "/{id}/usage", methods: [GET], run: [{ use: workspace }], to: { workspaces: { do: usage } } }
  - { path: "/{id}/upgrade", methods: [POST], run: [{ use: workspace }], to: { workspaces: { do: upgrade } } }
  - { path: "/{id}/downgrade", methods: [POST], run: [{ use: workspace }], to: { workspaces: { do: downgrade } } }
  - { path: "/{id}/purchase", methods: [POST], run: [{ use: workspace }], to: { workspaces: { do: purchase } } }
`;

interface Answer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

/** `key`: empty to send none. */
async function ask(
  { url }: TestGateway,
  key: string,
  path: string,
  wanted: Sent = {},
): Promise<Answer> {
  const { status, json } = await send(url + path, { ...wanted, key: key === "" ? null : key });
  return { status, body: json };
}

test("a month draws included credit, then purchased credit, then overage up to the limit; the next month begins with the smaller plan", async () => {
  const clock = manualClock();
  await using gateway = await startTestGateway({
    pipeline,
    clock,
    account: {
      plan: "startup",
      overageLimitCuMilli: 1_000,
      capabilities: ["workspace:admin"],
      createdAt: clock.now(),
    },
  });
  const id = gateway.workspaceId;
  const own = (path: string, body?: object): Promise<Answer> =>
    ask(gateway, gateway.key, `/${id}${path}`, { body });
  const calls = async (count: number): Promise<void> => {
    for (let n = 1; n <= count; n++) {
      assert.equal((await ask(gateway, gateway.key, "/call")).status, 200, `call ${n} of ${count}`);
    }
  };
  const usedUp = async (used: number, limit: number): Promise<void> => {
    const { status, body } = await ask(gateway, gateway.key, "/call");
    assert.equal(status, 429);
    assert.deepEqual(body["details"], { used_cu_milli: used, limit_cu_milli: limit });
  };

  const bought = await own("/purchase", { amount_cu_milli: 500 });
  assert.equal(bought.status, 200);
  await calls(4 + 1 + 2);
  await usedUp(3_500, 3_500);
  const shown = await own("");
  assert.equal(shown.body["purchased_cu_milli"], 0);

  const pending = await own("/downgrade", { plan: "free" });
  assert.equal(pending.body["plan"], "startup");
  assert.equal(pending.body["pending_plan"], "free");
  assert.equal(pending.body["pending_plan_at"], "2026-02-01T00:00:00.000Z");
  clock.jump(Date.UTC(2026, 1) - 1 - clock.now());
  await usedUp(3_500, 3_500);

  clock.jump(1);
  assert.equal((await own("")).body["plan"], "free");
  await calls(2);
  await usedUp(1_000, 1_000);
  await own("/purchase", { amount_cu_milli: 500 });
  await calls(1);
  await usedUp(1_500, 1_500);
  const up = await own("/upgrade", { plan: "startup" });
  assert.equal(up.body["plan"], "startup");
  await calls(2 + 2);
  await usedUp(3_500, 3_500);

  const drawn = { january: [0, 0, 0], february: [0, 0, 0] };
  for (const row of readUsage(join(gateway.folder, "data"))) {
    const month = drawn[row.time < Date.UTC(2026, 1) ? "january" : "february"];
    const parts = [row.includedMilliCu, row.purchasedMilliCu, row.overageMilliCu];
    parts.forEach((milliCu, source) => (month[source] = (month[source] ?? 0) + milliCu));
  }
  // The upgrade counts for the whole of February, so that its included credit comes before the purchased credit.
  const month = [2_000, 500, 1_000];
  assert.deepEqual(drawn, { january: month, february: month });

  const report = async (query: string): Promise<Answer["body"]> =>
    (await own(`/usage?${query}`)).body;
  const zeros = { input_tokens: 0, output_tokens: 0 };
  const now = {
    workspace_id: id,
    from: "2026-02-01T00:00:00.000Z",
    to: "2026-03-01T00:00:00.000Z",
  };
  const one = { calls: 7, used_cu_milli: 3_500, ...zeros };
  assert.deepEqual(await report(""), { ...now, used_cu_milli: 3_500, groups: [one] });
  const byDay = await report("from=2026-01-01&group_by=day,key,surface,method,model");
  assert.equal(byDay["used_cu_milli"], 7_000);
  const place = { key: gateway.keyId, surface: "discovery", method: "GET /call", model: null };
  assert.deepEqual(byDay["groups"], [
    { ...place, day: "2026-01-15", ...one },
    { ...place, day: "2026-02-01", ...one },
  ]);
  assert.deepEqual((await report("to=2026-02-01"))["groups"], []);
});

test("calls never get more than the purchased credit, however many run at once", async () => {
  await using gateway = await startTestGateway({
    pipeline,
    account: { plan: "free", capabilities: ["workspace:admin"] },
  });
  const body = '{"amount_cu_milli":1500}';
  const buying = ask(gateway, gateway.key, `/${gateway.workspaceId}/purchase`, { body });
  const asking = Array.from({ length: 30 }, () => ask(gateway, gateway.key, "/call"));
  assert.equal((await buying).status, 200);
  const served = (await Promise.all(asking)).filter(({ status }) => status === 200).length;
  assert.ok(served <= 5, `${served} of 5`);
  const rest = Array.from({ length: 10 }, () => ask(gateway, gateway.key, "/call"));
  const later = (await Promise.all(rest)).filter(({ status }) => status === 200).length;
  assert.equal(served + later, 5);
});

test("a key that is bound to addresses gets 403 from any other address, and takes from that address's bucket", async () => {
  await using gateway = await startTestGateway({ pipeline, clock: manualClock() });
  const bound = await gateway.issue({ allowedAddresses: ["192.0.2.0/24"] });
  const from = (address: string): Promise<Answer> =>
    ask(gateway, bound.key, "/call", { headers: { "x-forwarded-for": address } });
  assert.equal((await from("192.0.2.7")).status, 200);
  for (let n = 0; n < 5; n++) {
    const { status, body } = await from("198.51.100.1");
    assert.equal(status, 403);
    assert.equal(body["error_code"], "GATEWAY_PERMISSION_DENIED");
    assert.equal(body["error"], "api key not allowed from this address");
  }
  assert.equal((await from("198.51.100.1")).status, 429);
  assert.equal((await from("192.0.2.7")).status, 200);
});

const everythingElse: readonly Capability[] = [
  "ledger:read",
  "ledger:write",
  "platform:read",
  "docs:read",
  "inference",
];

async function startShipped(more: Pick<TestGatewayOptions, "clock"> = {}): Promise<{
  gateway: TestGateway;
  admin: TestKey;
  platform: TestKey;
}> {
  const gateway = await startTestGateway({
    pipeline: shipped,
    env: { LOG_LEVEL: "silent" },
    ...more,
  });
  const admin = await gateway.issue({ plan: "developer", capabilities: ["workspace:admin"] });
  const platform = await gateway.issue({ capabilities: ["platform:admin"] });
  return { gateway, admin, platform };
}

test("the shipped routes: every change returns the workspace and is in its audit log", async () => {
  const { gateway, admin } = await startShipped();
  await using _ = gateway;
  const path = `/tma/workspaces/${admin.workspaceId}`;
  const post = async (action: string, body: string): Promise<Answer> =>
    ask(gateway, admin.key, `${path}/${action}`, { body, headers: { "x-request-id": action } });
  assert.equal((await post("upgrade", '{"plan":"enterprise"}')).body["plan"], "enterprise");
  assert.equal((await post("downgrade", '{"plan":"free"}')).body["pending_plan"], "free");
  const again = await post("cancel-downgrade", "{}");
  assert.deepEqual([again.body["plan"], again.body["pending_plan"]], ["enterprise", undefined]);
  const bought = await post("cu/purchase", '{"amount_cu_milli":9007199254740991}');
  assert.equal(bought.body["amount_cu_milli"], Number.MAX_SAFE_INTEGER);
  const shown = await ask(gateway, admin.key, path);
  assert.deepEqual(bought.body["workspace"], shown.body);
  assert.equal(shown.body["purchased_cu_milli"], Number.MAX_SAFE_INTEGER);

  const conflicts: readonly [string, string][] = [
    ["upgrade", '{"plan":"enterprise"}'],
    ["upgrade", '{"plan":"free"}'],
    ["downgrade", '{"plan":"enterprise"}'],
    ["cancel-downgrade", "{}"],
    ["cu/purchase", '{"amount_cu_milli":1}'],
  ];
  for (const [action, body] of conflicts) {
    const { status, body: envelope } = await post(action, body);
    assert.equal(status, 409, action);
    assert.deepEqual(Object.keys(envelope), ["error", "error_code"]);
    assert.equal(envelope["error_code"], "GATEWAY_CONFLICT");
  }

  const { body } = await ask(gateway, admin.key, `${path}/audit?after=2`);
  const changes = body["changes"] as Record<string, unknown>[];
  const mine = changes.filter(({ workspace_id: id }) => id === admin.workspaceId);
  assert.deepEqual(
    mine
      .filter(({ actor }) => actor === admin.keyId)
      .map(({ action, request_id: request }) => [action, request]),
    [
      ["workspace.upgrade", "upgrade"],
      ["workspace.downgrade", "downgrade"],
      ["workspace.cancel-downgrade", "cancel-downgrade"],
      ["workspace.purchase", "cu/purchase"],
    ],
  );
  assert.equal(mine.length, changes.length);
});

test("the shipped routes: callers without permission are refused in the right order, and nothing changes", async () => {
  const { gateway, admin, platform } = await startShipped();
  await using _ = gateway;
  const code = async (key: string, path: string, wanted: Sent = {}): Promise<unknown[]> => {
    const { status, body } = await ask(gateway, key, `/tma/workspaces/${path}`, wanted);
    return [status, body["error_code"]];
  };
  const body = '{"plan":"enterprise"}';
  const [own, other] = [admin.workspaceId, gateway.workspaceId];
  assert.deepEqual(await code("", `${own}/upgrade`, { body }), [401, "GATEWAY_UNAUTHORIZED"]);
  const denied = [403, "GATEWAY_PERMISSION_DENIED"];
  assert.deepEqual(await code(gateway.key, `${other}/upgrade`, { body }), denied);
  assert.deepEqual(await code(gateway.key, `ws_none/upgrade`, { body }), denied);
  const notFound = [404, "GATEWAY_NOT_FOUND"];
  assert.deepEqual(await code(admin.key, `${other}/upgrade`, { body }), notFound);
  assert.deepEqual(await code(admin.key, other), notFound);
  assert.deepEqual(await code(admin.key, `${other}/usage`), notFound);
  assert.deepEqual(await code(admin.key, `${other}/audit`), notFound);
  assert.deepEqual(await code(platform.key, "ws_none"), notFound);
  assert.deepEqual(await code(platform.key, "ws_none/upgrade", { body }), notFound);
  assert.deepEqual(await code(admin.key, `${own}/sell`, { body }), notFound);
  const invalid = "GATEWAY_INVALID_PARAMS";
  assert.deepEqual(await code(admin.key, `${own}/upgrade`), [405, invalid]);
  const text = { body, headers: { "content-type": "text/plain" } };
  assert.deepEqual(await code(admin.key, `${own}/upgrade`, text), [415, invalid]);
  const large = { body: `{"plan":"${"x".repeat(1024 * 1024)}"}` };
  assert.deepEqual(await code(admin.key, `${own}/upgrade`, large), [400, invalid]);
  const wrong = { body: '{"plan":"gold"}' };
  assert.deepEqual(await code(admin.key, `${own}/upgrade`, wrong), [400, invalid]);
  assert.deepEqual(await code(admin.key, `${own}/usage?from=x`), [400, invalid]);

  assert.equal((await ask(gateway, admin.key, `/tma/workspaces/${own}`)).body["plan"], "developer");
  const upgrade = `/tma/workspaces/${own}/upgrade`;
  const { status, body: shown } = await ask(gateway, platform.key, upgrade, { body });
  assert.deepEqual([status, shown["plan"]], [200, "enterprise"]);
});

test("the shipped routes: none of them gives access to another workspace, or to a key without the capability", async () => {
  const clock = manualClock();
  const { gateway, admin, platform } = await startShipped({ clock });
  await using _ = gateway;
  const routes: readonly (readonly [string, string?])[] = [
    [""],
    ["/usage"],
    ["/audit"],
    ["/upgrade", '{"plan":"enterprise"}'],
    ["/downgrade", '{"plan":"free"}'],
    ["/cancel-downgrade", "{}"],
    ["/cu/purchase", '{"amount_cu_milli":1}'],
  ];
  const inPipeline = [...shipped.matchAll(/path: "?\/tma\/workspaces\/\{id\}([^"\s]*)/g)];
  const paths = new Set(inPipeline.map(([, path]) => path));
  assert.deepEqual(paths, new Set(routes.map(([path]) => path)));

  const rival = await gateway.issue({ plan: "developer", capabilities: ["workspace:admin"] });
  const plain = await gateway.issue({ capabilities: [...everythingElse] });
  const before = await ask(gateway, platform.key, `/tma/workspaces/${admin.workspaceId}/audit`);
  for (const [path, body] of routes) {
    // By now the bucket of the address is full again.
    clock.advance(1_000);
    const wanted = body === undefined ? {} : { body };
    const as = async (key: string): Promise<unknown[]> => {
      const answer = await ask(gateway, key, `/tma/workspaces/${admin.workspaceId}${path}`, wanted);
      return [answer.status, answer.body["error_code"]];
    };
    assert.deepEqual(await as(""), [401, "GATEWAY_UNAUTHORIZED"], path);
    assert.deepEqual(await as(plain.key), [403, "GATEWAY_PERMISSION_DENIED"], path);
    assert.deepEqual(await as(rival.key), [404, "GATEWAY_NOT_FOUND"], path);
  }
  const after = await ask(gateway, platform.key, `/tma/workspaces/${admin.workspaceId}/audit`);
  assert.deepEqual(after.body, before.body);
});
