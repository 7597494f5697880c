import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { manualClock } from "../../../../src/testing/clock.ts";
import { ask, call, signIn, startWatched } from "./gateway.ts";
import { withFolderAccounts } from "../../billing/accounts/open-accounts.ts";

const noon = Date.UTC(2026, 10, 21, 12);

test("live: it shows calls, refusals with their reasons, and single exchanges while someone is viewing", async () => {
  await using gateway = await startWatched();
  const cookie = await signIn(gateway, gateway.key);
  const before = await ask(gateway, "live", { cookie });
  assert.equal(before.status, 200);
  assert.equal(before.body.totals.requests, 0);
  assert.deepEqual(before.body.exchanges, []);
  assert.equal(before.body.ready, true);
  assert.equal(before.body.p50_ms, undefined);

  assert.equal(await call(gateway, gateway.key), 200);
  assert.equal(await call(gateway, gateway.tenant.key), 200);
  assert.equal(await call(gateway, undefined), 401);
  assert.equal(await call(gateway, undefined, "/none"), 404);
  const { body } = await ask(gateway, "live", { cookie });
  assert.deepEqual(body.totals, { requests: 4, refused: 2, failed: 0 });
  assert.equal(body.requests.length, 120);
  assert.equal(
    body.requests.reduce((sum: number, n: number) => sum + n, 0),
    4,
  );
  assert.deepEqual(body.refusals, [
    { code: "GATEWAY_UNAUTHORIZED", recent: 1, total: 1 },
    { code: "GATEWAY_NOT_FOUND", recent: 1, total: 1 },
  ]);
  assert.ok(body.p95_ms >= body.p50_ms && body.p50_ms > 0);
  assert.equal(body.exchanges.length, 4);
  const [newest, , , oldest] = body.exchanges;
  assert.equal(newest.route, "(unmatched)");
  assert.equal(newest.code, "GATEWAY_NOT_FOUND");
  assert.deepEqual(
    { ...oldest, time: "", ms: 0, request_id: "" },
    {
      time: "",
      ms: 0,
      method: "GET",
      route: "/call",
      status: 200,
      key_id: gateway.keyId,
      key_name: "test",
      workspace_id: gateway.workspaceId,
      request_id: "",
      used_cu_milli: 500,
    },
  );
});

test("live: a workspace's administrator sees the calls of its keys and nothing of the deployment", async () => {
  await using gateway = await startWatched();
  const { tenant } = gateway;
  const cookie = await signIn(gateway, tenant.key);
  assert.equal((await ask(gateway, "live", { cookie })).body.totals.requests, 0);
  await call(gateway, gateway.key);
  await call(gateway, undefined);
  await call(gateway, tenant.key);
  await ask(gateway, "live", { cookie });
  await call(gateway, tenant.key);
  const { body } = await ask(gateway, "live", { cookie });
  assert.deepEqual(body.totals, { requests: 2, refused: 0, failed: 0 });
  assert.deepEqual(
    body.exchanges.map((each: { workspace_id: string }) => each.workspace_id),
    [tenant.workspaceId],
  );
  for (const member of ["in_flight", "ready", "wrong"]) assert.ok(!(member in body), member);
});

test("keys: their windows are shown with their usage and the time at which they clear", async () => {
  const clock = manualClock(noon);
  await using gateway = await startWatched({ clock });
  const cookie = await signIn(gateway, gateway.key);
  for (let i = 0; i < 4; i++) assert.equal(await call(gateway, gateway.key), 200);
  assert.equal(await call(gateway, gateway.key), 429);
  const { body } = await ask(gateway, `keys?q=${gateway.keyId.slice(4)}`, { cookie });
  assert.equal(body.has_more, false);
  assert.equal(body.keys.length, 1);
  const [key] = body.keys;
  assert.equal(key.id, gateway.keyId);
  assert.equal(key.manageable, true);
  assert.deepEqual(key.windows["24h"], {
    used_cu_milli: 2_000,
    reserved_cu_milli: 0,
    limit_cu_milli: 2_000,
    frees_at: "2026-11-22T12:01:00.000Z",
    room_at: "2026-11-22T12:01:00.000Z",
    empty_at: "2026-11-22T12:01:00.000Z",
  });
  assert.equal(key.windows["30d"].used_cu_milli, 2_000);
  assert.ok(!("limit_cu_milli" in key.windows["30d"]));
  assert.ok(!JSON.stringify(body).includes(gateway.key.slice(-32)), "no key's text");
});

test("keys: they are found by id, name or workspace, and revoked ones only on request", async () => {
  await using gateway = await startWatched();
  const cookie = await signIn(gateway, gateway.key);
  const found = async (query: string): Promise<string[]> =>
    (await ask(gateway, `keys${query}`, { cookie })).body.keys.map(({ id }: { id: string }) => id);
  const { tenant } = gateway;
  assert.deepEqual((await found("")).toSorted(), [gateway.keyId, tenant.keyId].toSorted());
  assert.deepEqual(await found(`?workspace=${tenant.workspaceId}`), [tenant.keyId]);
  assert.deepEqual(await found(`?q=${tenant.workspaceId}`), [tenant.keyId]);
  assert.equal((await found("?q=TEST")).length, 2);
  assert.deepEqual(await found("?q=%25"), []);
  await ask(gateway, `keys/${tenant.keyId}/revoke`, { cookie, body: {} });
  assert.deepEqual(await found(""), [gateway.keyId]);
  assert.equal((await found("?state=all")).length, 2);
  for (const query of ["?state=none", "?q=a&q=b", "?limit=1", `?q=${"x".repeat(101)}`]) {
    assert.equal((await ask(gateway, `keys${query}`, { cookie })).status, 400, query);
  }
});

test("a key is created, works, is rotated and revoked, and each change is in the audit log with its actor", async () => {
  await using gateway = await startWatched();
  const cookie = await signIn(gateway, gateway.key);
  const made = await ask(gateway, "keys", {
    cookie,
    body: {
      workspace_id: gateway.tenant.workspaceId,
      name: "CI <b>runner</b>",
      capabilities: ["ledger:read"],
      cu_limit_24h_milli: 5_000,
      allowed_addresses: ["127.0.0.0/8"],
      expires_in_seconds: 3_600,
    },
  });
  assert.equal(made.status, 201);
  assert.match(made.body.secret, /^gateway_dev_[0-9a-f]{32}$/);
  assert.equal(made.body.key.name, "CI <b>runner</b>");
  assert.equal(made.body.key.cu_limit_24h_milli, 5_000);
  const lifeMs = Date.parse(made.body.key.expires_at) - Date.parse(made.body.key.created_at);
  assert.equal(lifeMs, 3_600_000);
  assert.equal(await call(gateway, made.body.secret), 200);

  const { id } = made.body.key;
  const rotated = await ask(gateway, `keys/${id}/rotate`, {
    cookie,
    body: { overlap_seconds: 60 },
  });
  assert.equal(rotated.status, 201);
  assert.notEqual(rotated.body.secret, made.body.secret);
  assert.equal(rotated.body.replaced.id, id);
  assert.equal(await call(gateway, made.body.secret), 200);
  assert.equal(await call(gateway, rotated.body.secret), 200);
  const again = await ask(gateway, `keys/${id}/rotate`, { cookie, body: { overlap_seconds: 60 } });
  assert.equal(again.status, 409);

  const successor = rotated.body.key.id;
  const revoked = await ask(gateway, `keys/${successor}/revoke`, { cookie, body: {} });
  assert.equal(revoked.status, 200);
  assert.equal(revoked.body.key.state, "revoked");
  assert.equal(await call(gateway, rotated.body.secret), 401);

  const all = await withFolderAccounts(`${gateway.folder}/data`, (store) => store.changes());
  const changes = all.filter(({ actor }) => actor === gateway.keyId);
  assert.deepEqual(
    changes.map(({ action, keyId, workspaceId, requestId }) => [
      action,
      keyId,
      workspaceId,
      requestId,
    ]),
    [
      ["key.create", id, gateway.tenant.workspaceId, made.headers.get("x-request-id")],
      ["key.create", successor, gateway.tenant.workspaceId, rotated.headers.get("x-request-id")],
      ["key.rotate", id, gateway.tenant.workspaceId, rotated.headers.get("x-request-id")],
      ["key.revoke", successor, gateway.tenant.workspaceId, revoked.headers.get("x-request-id")],
    ],
  );
  const text = JSON.stringify(changes) + gateway.lines.join("\n");
  assert.ok(!text.includes(made.body.secret) && !text.includes(rotated.body.secret));
});

test("the administrator of a workspace creates and revokes its keys, but not those of a platform administrator", async () => {
  await using gateway = await startWatched();
  const { tenant } = gateway;
  const cookie = await signIn(gateway, tenant.key);
  const wanted = { workspace_id: tenant.workspaceId, name: "own", capabilities: ["ledger:read"] };
  const made = await ask(gateway, "keys", { cookie, body: wanted });
  assert.equal(made.status, 201);
  const foreign = { ...wanted, workspace_id: gateway.workspaceId };
  assert.equal((await ask(gateway, "keys", { cookie, body: foreign })).status, 404);
  const higher = await ask(gateway, "keys", {
    cookie,
    body: { ...wanted, capabilities: ["platform:admin"] },
  });
  assert.equal(higher.status, 403);
  for (const [what, body] of [
    ["revoke", {}],
    ["rotate", { overlap_seconds: 0 }],
  ] as const) {
    const path = `keys/${gateway.keyId}/${what}`;
    assert.equal((await ask(gateway, path, { cookie, body })).status, 404, what);
  }

  // A platform administrator's key in this same workspace. If the workspace's administrator could rotate it, its successor would be visible to the workspace's
  // administrator.
  const admin = await ask(gateway, "keys", {
    cookie: await signIn(gateway, gateway.key),
    body: { ...wanted, capabilities: ["platform:admin"] },
  });
  assert.equal(admin.status, 201);
  const list = await ask(gateway, "keys", { cookie });
  assert.deepEqual(
    list.body.keys
      .map(({ name, manageable }: { name: string; manageable: boolean }) => [name, manageable])
      .toSorted(),
    [
      ["own", false],
      ["own", true],
      ["test", true],
    ],
  );
  for (const [what, body] of [
    ["revoke", {}],
    ["rotate", { overlap_seconds: 0 }],
  ] as const) {
    const path = `keys/${admin.body.key.id}/${what}`;
    assert.equal((await ask(gateway, path, { cookie, body })).status, 403, what);
  }
  assert.equal(
    (await ask(gateway, `keys?workspace=${gateway.workspaceId}`, { cookie })).status,
    404,
  );
  const { body } = await ask(gateway, "workspaces", { cookie });
  assert.deepEqual(
    body.workspaces.map(({ id }: { id: string }) => id),
    [tenant.workspaceId],
  );
  assert.equal(
    (await ask(gateway, `keys/${made.body.key.id}/revoke`, { cookie, body: {} })).status,
    200,
  );
});

test("keys: the plan limits those that a workspace's administrator makes, and a minute its changes", async () => {
  await using gateway = await startWatched();
  const { tenant } = gateway;
  const cookie = await signIn(gateway, tenant.key);
  const body = { workspace_id: tenant.workspaceId, name: "one more", capabilities: ["inference"] };
  const create = async (by: string): Promise<number> =>
    (await ask(gateway, "keys", { cookie: by, body })).status;
  const made = await ask(gateway, "keys", { cookie, body });
  for (let active = 2; active < 10; active++) assert.equal(await create(cookie), 201);
  const refused = await ask(gateway, "keys", { cookie, body });
  assert.deepEqual([refused.status, refused.body.error_code], [409, "GATEWAY_CONFLICT"]);
  assert.match(refused.body.error, /allows 10 active keys/);
  const path = `keys/${made.body.key.id}`;
  const rotate = async (seconds: number): Promise<number> =>
    (await ask(gateway, `${path}/rotate`, { cookie, body: { overlap_seconds: seconds } })).status;
  assert.equal(await rotate(60), 409);
  assert.equal(await rotate(0), 201);
  const operator = await signIn(gateway, gateway.key);
  assert.equal(await create(operator), 201, "a platform administrator is not limited");

  for (let n = 12; n < 30; n++) assert.equal(await create(cookie), 409);
  const many = await ask(gateway, `keys/${tenant.keyId}/edit`, { cookie, body: { name: "x" } });
  assert.deepEqual([many.status, many.body.error_code], [429, "GATEWAY_RATE_LIMITED"]);
  assert.match(many.body.error, /30 times a minute/);
  assert.ok(Number(many.headers.get("retry-after")) > 0);
  assert.equal(await create(operator), 201);
});

test("the input for a new key is validated strictly", async () => {
  await using gateway = await startWatched();
  const cookie = await signIn(gateway, gateway.key);
  const good = { workspace_id: gateway.workspaceId, name: "x", capabilities: ["inference"] };
  const wrong: readonly object[] = [
    {},
    { ...good, name: "" },
    { ...good, name: "a\u0007b" },
    { ...good, name: "x".repeat(201) },
    { ...good, name: 1 },
    { ...good, capabilities: [] },
    { ...good, capabilities: ["everything"] },
    { ...good, capabilities: ["inference", "inference"] },
    { ...good, rps_limit: 0 },
    { ...good, rps_limit: "5" },
    { ...good, cu_limit_24h_milli: 1.5 },
    { ...good, cu_limit_30d_milli: -1 },
    { ...good, cu_limit_30d_milli: 2 ** 53 },
    { ...good, allowed_addresses: [] },
    { ...good, allowed_addresses: ["300.1.1.1"] },
    { ...good, expires_in_seconds: 0 },
    { ...good, environment: "prod" },
  ];
  for (const body of wrong) {
    const answer = await ask(gateway, "keys", { cookie, body });
    assert.equal(answer.status, 400, JSON.stringify(body));
    assert.equal(answer.body.error_code, "GATEWAY_SCHEMA_VIOLATION");
  }
  const none = { ...good, workspace_id: "ws_none" };
  assert.equal((await ask(gateway, "keys", { cookie, body: none })).status, 404);
  for (const body of [
    {},
    { overlap_seconds: -1 },
    { overlap_seconds: 1.5 },
    { overlap_seconds: 1e9 },
  ]) {
    const path = `keys/${gateway.tenant.keyId}/rotate`;
    assert.equal((await ask(gateway, path, { cookie, body })).status, 400, JSON.stringify(body));
  }
  assert.equal((await ask(gateway, "keys/key_none/revoke", { cookie, body: {} })).status, 404);
});

test("only a platform administrator can see health and the pipeline", async () => {
  await using gateway = await startWatched();
  await call(gateway, gateway.key);
  await call(gateway, undefined);
  await call(gateway, gateway.key, "/free?x=1");
  const cookie = await signIn(gateway, gateway.key);
  const health = await ask(gateway, "health", { cookie });
  assert.equal(health.body.ready, true);
  assert.equal(health.body.checks.journal, "ok");
  assert.deepEqual(health.body.ledgers, []);
  assert.ok(health.body.process.memory_bytes > 0);

  const { body } = await ask(gateway, "routes", { cookie });
  assert.deepEqual(
    body.routes.map(({ path }: { path: string }) => path),
    ["/call", "/free", "(unmatched)"],
  );
  const [called, free] = body.routes;
  assert.deepEqual(
    called.steps.map(({ name, mode }: { name: string; mode: string }) => `${name} ${mode}`),
    ["request-id enforce", "authenticate enforce", "authorize enforce", "meter enforce"],
  );
  assert.equal(called.surface.name, "discovery");
  assert.equal(called.requests["2xx"], 1);
  assert.equal(called.requests["4xx"], 1);
  const [, , authorize, meter] = called.steps;
  assert.deepEqual(authorize.refusals, { GATEWAY_UNAUTHORIZED: 1 });
  assert.equal(meter.timed, 1);
  assert.ok(meter.mean_ms > 0 && meter.p95_ms > 0);
  const { errors, timeouts, skips } = meter;
  assert.deepEqual([errors, timeouts, skips], [0, 0, 0]);
  assert.equal(free.steps.at(-1).mode, "shadow");
  assert.deepEqual(free.steps.at(-1).refusals, {});

  const tenant = await signIn(gateway, gateway.tenant.key);
  for (const path of ["health", "routes"]) {
    const refused = await ask(gateway, path, { cookie: tenant });
    assert.equal(refused.status, 403, path);
    assert.equal(refused.body.error_code, "GATEWAY_PERMISSION_DENIED");
  }
});

test("the administrator of a workspace can see the explanations of the requests of its keys only", async () => {
  await using gateway = await startWatched();
  const cookie = await signIn(gateway, gateway.tenant.key);
  // Clients choose the ids, so all of these requests have the same one.
  for (const key of [gateway.key, gateway.tenant.key, undefined]) {
    const authorization = key === undefined ? {} : { authorization: `Bearer ${key}` };
    const headers = { ...authorization, "x-request-id": "same" };
    await (await fetch(`${gateway.url}/call`, { headers })).arrayBuffer();
  }
  const { status, body } = await ask(gateway, "explain?id=same", { cookie });
  assert.equal(status, 200);
  assert.deepEqual(
    body.exchanges.map((each: Record<string, unknown>) => [each["key_id"], each["status"]]),
    [[gateway.tenant.keyId, 200]],
  );
  assert.equal(body.missing, undefined);
  const operator = await signIn(gateway, gateway.key);
  assert.equal(
    (await ask(gateway, "explain?id=same", { cookie: operator })).body.exchanges.length,
    3,
  );
  const headers = { authorization: `Bearer ${gateway.key}`, "x-request-id": "other" };
  await (await fetch(`${gateway.url}/call`, { headers })).arrayBuffer();
  assert.equal((await ask(gateway, "explain?id=other", { cookie })).status, 404);
  assert.equal((await ask(gateway, "explain?id=same")).status, 401);
});

test("while the store cannot be read, the API reports that and the page is still served", async () => {
  await using gateway = await startWatched();
  const cookie = await signIn(gateway, gateway.key);
  const db = new DatabaseSync(`${gateway.folder}/data/state.db`);
  db.exec("ALTER TABLE keys RENAME TO lost");
  db.close();
  for (const path of ["session", "keys", "live"]) {
    const { status, body } = await ask(gateway, path, { cookie });
    assert.equal(status, 503, path);
    assert.deepEqual(body, {
      error: "temporarily unavailable",
      error_code: "GATEWAY_SERVICE_UNAVAILABLE",
    });
  }
  assert.equal((await fetch(`${gateway.adminUrl}/dashboard`)).status, 200);
});

test("live: the latest requests are filtered by status, code, key, route, call and request id", async () => {
  await using gateway = await startWatched();
  const cookie = await signIn(gateway, gateway.key);
  await ask(gateway, "live", { cookie });
  const calls = [
    () => call(gateway, gateway.key),
    () => call(gateway, gateway.tenant.key),
    () => call(gateway, undefined),
    () => call(gateway, gateway.key, "/free"),
  ];
  for (const [before, send] of calls.entries()) {
    await send();
    // A client can have its answer before the exchange is recorded.
    while ((await ask(gateway, "live", { cookie })).body.searched === before);
  }
  const found = async (query: string): Promise<string[]> => {
    const { status, body } = await ask(gateway, `live?${query}`, { cookie });
    assert.equal(status, 200, query);
    assert.equal(body.searched, 4);
    return body.exchanges.map(
      (each: { route: string; status: number }) => `${each.route} ${each.status}`,
    );
  };
  assert.deepEqual(await found("status=4xx"), ["/call 401"]);
  assert.deepEqual(await found("status=401&route=CALL"), ["/call 401"]);
  assert.deepEqual(await found("status=403"), []);
  assert.deepEqual(await found("code=unauth"), ["/call 401"]);
  assert.deepEqual(await found("route=/fr"), ["/free 200"]);
  assert.deepEqual(await found(`key=${gateway.tenant.keyId}`), ["/call 200"]);
  assert.equal((await found("key=TEST")).length, 3);
  assert.deepEqual(await found("key=nobody"), []);
  assert.deepEqual(await found("call=state_call"), []);
  const { body } = await ask(gateway, "live", { cookie });
  assert.equal(body.exchanges[0].key_name, "test");
  assert.deepEqual(await found(`request=${body.exchanges[0].request_id}`), ["/free 200"]);
  for (const wrong of ["status=abc", "status=4x", `code=${"x".repeat(101)}`, "other=1"]) {
    assert.equal((await ask(gateway, `live?${wrong}`, { cookie })).status, 400, wrong);
  }
  // The filter by a key's name finds only keys of the viewer's own workspace.
  const own = await signIn(gateway, gateway.tenant.key);
  await ask(gateway, "live", { cookie: own });
  await call(gateway, gateway.tenant.key);
  while ((await ask(gateway, "live", { cookie: own })).body.searched < 1);
  const other = await ask(gateway, `live?key=${gateway.keyId}`, { cookie: own });
  assert.deepEqual(other.body.exchanges, []);
});

test("a change with the same Idempotency-Key is made once, and the text of a key is not stored", async () => {
  await using gateway = await startWatched();
  const cookie = await signIn(gateway, gateway.key);
  const { workspaceId } = gateway;
  const headers = { "idempotency-key": "form-00000001" };
  const purchase = `workspaces/${workspaceId}/purchase`;
  const body = { amount_cu_milli: 500 };
  const bought = await ask(gateway, purchase, { cookie, body, headers });
  const again = await ask(gateway, purchase, { cookie, body, headers });
  assert.equal(bought.status, 200);
  assert.deepEqual(again.body, bought.body);
  assert.equal(again.headers.get("idempotent-replayed"), "true");
  assert.equal(again.body.workspace.purchased_cu_milli, 500);
  const other = await ask(gateway, purchase, { cookie, body: { amount_cu_milli: 1 }, headers });
  assert.equal(other.body.error_code, "GATEWAY_IDEMPOTENCY_KEY_MISMATCH");

  const key = { workspace_id: workspaceId, name: "k", capabilities: ["ledger:read"] };
  const form = { cookie, body: key, headers: { "idempotency-key": "form-00000002" } };
  const made = await ask(gateway, "keys", form);
  assert.match(made.body.secret, /^gateway_dev_/);
  const repeated = await ask(gateway, "keys", form);
  assert.equal(repeated.status, 201);
  assert.equal(repeated.body.secret, undefined);
  assert.equal(repeated.body.key.id, made.body.key.id);

  // A refused change is not stored: the corrected form may be sent with the same key.
  const third = { cookie, headers: { "idempotency-key": "form-00000003" } };
  const wrong = await ask(gateway, purchase, { ...third, body: { amount_cu_milli: 0 } });
  assert.equal(wrong.body.error_code, "GATEWAY_SCHEMA_VIOLATION");
  assert.equal((await ask(gateway, purchase, { ...third, body })).status, 200);
  for (const value of [undefined, "short", "with a space"]) {
    const keyless = await ask(gateway, purchase, {
      cookie,
      body,
      headers: { "idempotency-key": value },
    });
    assert.equal(keyless.body.error_code, "GATEWAY_INVALID_IDEMPOTENCY_KEY");
  }
});

test("workspaces: created, changed and searched by platform administrators only, and recorded with the actor", async () => {
  await using gateway = await startWatched();
  const cookie = await signIn(gateway, gateway.key);
  const post = (path: string, body: object): ReturnType<typeof ask> =>
    ask(gateway, path, { cookie, body });
  const made = await post("workspaces", { name: "Acme", plan: "startup" });
  assert.equal(made.status, 201);
  const { id } = made.body.workspace;
  const limited = await post(`workspaces/${id}/settings`, { overage_limit_cu_milli: 10 });
  assert.equal(limited.body.workspace.overage_limit_cu_milli, 10);
  const unlimited = await post(`workspaces/${id}/settings`, { overage_limit_cu_milli: null });
  assert.equal(unlimited.body.workspace.overage_limit_cu_milli, undefined);
  assert.equal((await post(`workspaces/${id}/downgrade`, { plan: "enterprise" })).status, 409);
  const pending = await post(`workspaces/${id}/downgrade`, { plan: "free" });
  assert.equal(pending.body.pending_plan, "free");
  assert.equal((await post(`workspaces/${id}/cancel-downgrade`, {})).body.pending_plan, undefined);
  assert.equal((await post(`workspaces/${id}/cancel-downgrade`, {})).status, 409);
  assert.equal((await post("workspaces/ws_none/purchase", { amount_cu_milli: 1 })).status, 404);
  assert.equal((await post(`workspaces/${id}/settings`, { plan: "gold" })).status, 400);

  const found = await ask(gateway, "workspaces?q=ACM", { cookie });
  assert.deepEqual(
    found.body.workspaces.map((each: { id: string }) => each.id),
    [id],
  );
  const { body } = await ask(gateway, `changes?workspace=${id}`, { cookie });
  assert.deepEqual(
    body.changes.map((each: { action: string; actor: string }) => `${each.action} ${each.actor}`),
    [
      `workspace.cancel-downgrade ${gateway.keyId}`,
      `workspace.downgrade ${gateway.keyId}`,
      `workspace.set ${gateway.keyId}`,
      `workspace.set ${gateway.keyId}`,
      `workspace.create ${gateway.keyId}`,
    ],
  );
  const older = await ask(gateway, `changes?workspace=${id}&before=${body.changes[3].id}`, {
    cookie,
  });
  assert.equal(older.body.changes.length, 1);
  assert.equal((await ask(gateway, "changes?before=x", { cookie })).status, 400);

  const tenant = await signIn(gateway, gateway.tenant.key);
  const own = await ask(gateway, "workspaces", { cookie: tenant });
  assert.deepEqual(
    own.body.workspaces.map((each: { id: string }) => each.id),
    [gateway.tenant.workspaceId],
  );
  assert.equal((await ask(gateway, `changes?workspace=${id}`, { cookie: tenant })).status, 404);
  const visible = await ask(gateway, "changes", { cookie: tenant });
  assert.ok(
    visible.body.changes.every(
      (each: { workspace_id: string }) => each.workspace_id === gateway.tenant.workspaceId,
    ),
  );
  const settings = `workspaces/${gateway.tenant.workspaceId}/settings`;
  const tried = await ask(gateway, settings, { cookie: tenant, body: { plan: "enterprise" } });
  assert.equal(tried.status, 403);
});

test("keys: an edit changes the given members, null removes a limit, and nobody grants more than they may", async () => {
  await using gateway = await startWatched();
  const cookie = await signIn(gateway, gateway.key);
  const edit = `keys/${gateway.tenant.keyId}/edit`;
  const set = await ask(gateway, edit, {
    cookie,
    body: { name: "new", rps_limit: 5, cu_limit_24h_milli: 100, expires_in_seconds: 3600 },
  });
  assert.equal(set.body.key.name, "new");
  assert.equal(set.body.key.rps_limit, 5);
  assert.ok(set.body.key.expires_at !== undefined);
  const cleared = await ask(gateway, edit, {
    cookie,
    body: { rps_limit: null, expires_in_seconds: null },
  });
  assert.equal(cleared.body.key.rps_limit, undefined);
  assert.equal(cleared.body.key.expires_at, undefined);
  assert.equal(cleared.body.key.cu_limit_24h_milli, 100);
  assert.equal((await ask(gateway, edit, { cookie, body: {} })).status, 400);
  const tenant = await signIn(gateway, gateway.tenant.key);
  const grant = { capabilities: ["platform:admin"] };
  assert.equal((await ask(gateway, edit, { cookie: tenant, body: grant })).status, 403);
  const foreign = `keys/${gateway.keyId}/edit`;
  assert.equal((await ask(gateway, foreign, { cookie: tenant, body: { name: "x" } })).status, 404);
  const pages = await ask(gateway, "keys?page=1", { cookie });
  assert.deepEqual([pages.body.keys, pages.body.has_more], [[], false]);
  assert.equal((await ask(gateway, "keys?page=-1", { cookie })).status, 400);
});
