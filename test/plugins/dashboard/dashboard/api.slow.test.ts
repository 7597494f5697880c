/** The API of the dashboard, called as the page calls it. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { after, before, test } from "node:test";
import { manualClock } from "../../../../src/testing/clock.ts";
import { ask, call, startWatched, userOf, type User, type Watched } from "./gateway.ts";
import { withFolderAccounts } from "../../billing/accounts/open-accounts.ts";

let shared: Watched;
let operator: User;
before(async () => {
  shared = await startWatched();
  operator = await userOf(shared, shared.key);
});
after(() => shared[Symbol.asyncDispose]());

const all = (rows: readonly Readonly<Record<string, unknown>>[], name: string): unknown[] =>
  rows.map((row) => row[name]);

async function callAs(key: string | undefined, id: string): Promise<void> {
  const authorization = key === undefined ? {} : { authorization: `Bearer ${key}` };
  const headers = { ...authorization, "x-request-id": id };
  await (await fetch(`${shared.url}/call`, { headers })).arrayBuffer();
}

test("live: it shows calls, refusals with their reasons, and single exchanges while someone is viewing", async () => {
  await using gateway = await startWatched();
  const { tenant } = gateway;
  const admin = await userOf(gateway, gateway.key);
  const own = await userOf(gateway, tenant.key);
  const idle = await admin.get("live");
  assert.deepEqual([idle.status, idle.body.ready], [200, true]);
  assert.deepEqual([idle.body.totals.requests, idle.body.exchanges], [0, []]);
  assert.equal(idle.body.p50_ms, undefined);
  assert.equal(await call(gateway, tenant.key), 200);
  await own.get("live");

  assert.equal(await call(gateway, gateway.key), 200);
  assert.equal(await call(gateway, tenant.key), 200);
  assert.equal(await call(gateway, undefined), 401);
  assert.equal(await call(gateway, undefined, "/none"), 404);
  const { body } = await admin.get("live");
  assert.deepEqual(body.totals, { requests: 5, refused: 2, failed: 0 });
  assert.equal(body.requests.length, 120);
  assert.equal(
    body.requests.reduce((sum: number, count: number) => sum + count),
    5,
  );
  assert.deepEqual(body.refusals, [
    { code: "GATEWAY_UNAUTHORIZED", recent: 1, total: 1 },
    { code: "GATEWAY_NOT_FOUND", recent: 1, total: 1 },
  ]);
  assert.ok(body.p95_ms >= body.p50_ms && body.p50_ms > 0);
  assert.equal(body.exchanges.length, 5);
  const [newest, , , { time: _, ms: __, request_id: ___, ...oldest }] = body.exchanges;
  assert.deepEqual([newest.route, newest.code], ["(unmatched)", "GATEWAY_NOT_FOUND"]);
  assert.deepEqual(oldest, {
    method: "GET",
    route: "/call",
    status: 200,
    key_id: gateway.keyId,
    key_name: "test",
    workspace_id: gateway.workspaceId,
    used_cu_milli: 500,
  });

  // The administrator of a workspace sees the calls of its keys, and nothing of the deployment.
  const seen = (await own.get("live")).body;
  assert.deepEqual(seen.totals, { requests: 2, refused: 0, failed: 0 });
  assert.deepEqual(all(seen.exchanges, "workspace_id"), [tenant.workspaceId]);
  for (const member of ["in_flight", "ready", "wrong"]) assert.ok(!(member in seen), member);
});

test("keys: their windows are shown with their usage and the time at which they clear", async () => {
  await using gateway = await startWatched({ clock: manualClock(Date.UTC(2026, 10, 21, 12)) });
  const admin = await userOf(gateway, gateway.key);
  for (let i = 0; i < 4; i++) assert.equal(await call(gateway, gateway.key), 200);
  assert.equal(await call(gateway, gateway.key), 429);
  const { body } = await admin.get(`keys?q=${gateway.keyId.slice(4)}`);
  assert.deepEqual([body.has_more, all(body.keys, "id")], [false, [gateway.keyId]]);
  const [{ manageable, windows }] = body.keys;
  assert.equal(manageable, true);
  assert.deepEqual(windows["24h"], {
    used_cu_milli: 2_000,
    reserved_cu_milli: 0,
    limit_cu_milli: 2_000,
    frees_at: "2026-11-22T12:01:00.000Z",
    room_at: "2026-11-22T12:01:00.000Z",
    empty_at: "2026-11-22T12:01:00.000Z",
  });
  assert.equal(windows["30d"].used_cu_milli, 2_000);
  assert.ok(!("limit_cu_milli" in windows["30d"]));
  assert.ok(!JSON.stringify(body).includes(gateway.key.slice(-32)), "no key's text");
});

test("keys: they are found by id, name or workspace, and revoked ones only on request", async () => {
  await using gateway = await startWatched();
  const admin = await userOf(gateway, gateway.key);
  const { tenant } = gateway;
  const found = async (query: string): Promise<string[]> =>
    all((await admin.get(`keys${query}`)).body.keys, "id")
      .map(String)
      .toSorted();
  assert.deepEqual(await found(""), [gateway.keyId, tenant.keyId].toSorted());
  assert.deepEqual(await found(`?workspace=${tenant.workspaceId}`), [tenant.keyId]);
  assert.deepEqual(await found(`?q=${tenant.workspaceId}`), [tenant.keyId]);
  assert.equal((await found("?q=TEST")).length, 2);
  assert.deepEqual(await found("?q=%25"), []);
  await admin.post(`keys/${tenant.keyId}/revoke`, {});
  assert.deepEqual(await found(""), [gateway.keyId]);
  assert.equal((await found("?state=all")).length, 2);
  for (const query of ["?state=none", "?q=a&q=b", "?limit=1", `?q=${"x".repeat(101)}`]) {
    assert.equal((await admin.get(`keys${query}`)).status, 400, query);
  }
});

test("a key is created, works, is rotated and revoked, and each change is in the audit log with its actor", async () => {
  const { workspaceId } = shared.tenant;
  const made = await operator.post("keys", {
    workspace_id: workspaceId,
    name: "CI <b>runner</b>",
    capabilities: ["ledger:read"],
    cu_limit_24h_milli: 5_000,
    allowed_addresses: ["127.0.0.0/8"],
    expires_in_seconds: 3_600,
  });
  const { key, secret } = made.body;
  assert.equal(made.status, 201);
  assert.match(secret, /^gateway_dev_[0-9a-f]{32}$/);
  assert.deepEqual([key.name, key.cu_limit_24h_milli], ["CI <b>runner</b>", 5_000]);
  assert.equal(Date.parse(key.expires_at) - Date.parse(key.created_at), 3_600_000);
  assert.equal(await call(shared, secret), 200);

  const overlap = { overlap_seconds: 60 };
  const rotated = await operator.post(`keys/${key.id}/rotate`, overlap);
  assert.deepEqual([rotated.status, rotated.body.replaced.id], [201, key.id]);
  assert.notEqual(rotated.body.secret, secret);
  assert.equal(await call(shared, secret), 200);
  assert.equal(await call(shared, rotated.body.secret), 200);
  assert.equal((await operator.post(`keys/${key.id}/rotate`, overlap)).status, 409);

  const successor = rotated.body.key.id;
  const revoked = await operator.post(`keys/${successor}/revoke`, {});
  assert.deepEqual([revoked.status, revoked.body.key.state], [200, "revoked"]);
  assert.equal(await call(shared, rotated.body.secret), 401);

  const changes = (
    await withFolderAccounts(`${shared.folder}/data`, (store) => store.changes({ workspaceId }))
  ).filter(({ keyId }) => keyId === key.id || keyId === successor);
  const requestOf = ({ headers }: typeof made): string | null => headers.get("x-request-id");
  assert.deepEqual(
    changes.map(({ action, keyId, actor, requestId }) => [action, keyId, actor, requestId]),
    [
      ["key.create", key.id, shared.keyId, requestOf(made)],
      ["key.create", successor, shared.keyId, requestOf(rotated)],
      ["key.rotate", key.id, shared.keyId, requestOf(rotated)],
      ["key.revoke", successor, shared.keyId, requestOf(revoked)],
    ],
  );
  const text = JSON.stringify(changes) + shared.lines.join("\n");
  assert.ok(!text.includes(secret) && !text.includes(rotated.body.secret));
});

test("the administrator of a workspace creates and revokes its keys, but not those of a platform administrator", async () => {
  await using gateway = await startWatched();
  const { tenant } = gateway;
  const own = await userOf(gateway, tenant.key);
  const wanted = { workspace_id: tenant.workspaceId, name: "own", capabilities: ["ledger:read"] };
  const higher = { ...wanted, capabilities: ["platform:admin"] };
  const made = await own.post("keys", wanted);
  assert.equal(made.status, 201);
  const foreign = { ...wanted, workspace_id: gateway.workspaceId };
  assert.equal((await own.post("keys", foreign)).status, 404);
  assert.equal((await own.post("keys", higher)).status, 403);
  // A platform administrator's key in this same workspace: its successor would be visible to the workspace's administrator.
  const admin = await (await userOf(gateway, gateway.key)).post("keys", higher);
  assert.equal(admin.status, 201);
  const { keys } = (await own.get("keys")).body;
  const manageable = keys.map(
    ({ name, manageable: may }: Record<string, string>) => `${name} ${may}`,
  );
  assert.deepEqual(manageable.toSorted(), ["own false", "own true", "test true"]);
  for (const [id, status] of [
    [gateway.keyId, 404],
    [admin.body.key.id, 403],
  ]) {
    assert.equal((await own.post(`keys/${id}/revoke`, {})).status, status);
    assert.equal((await own.post(`keys/${id}/rotate`, { overlap_seconds: 0 })).status, status);
  }
  assert.equal((await own.get(`keys?workspace=${gateway.workspaceId}`)).status, 404);
  const { workspaces } = (await own.get("workspaces")).body;
  assert.deepEqual(all(workspaces, "id"), [tenant.workspaceId]);
  assert.equal((await own.post(`keys/${made.body.key.id}/revoke`, {})).status, 200);
});

test("keys: the plan limits those that a workspace's administrator makes, and a minute its changes", async () => {
  await using gateway = await startWatched();
  const { tenant } = gateway;
  const own = await userOf(gateway, tenant.key);
  const admin = await userOf(gateway, gateway.key);
  const body = { workspace_id: tenant.workspaceId, name: "one more", capabilities: ["inference"] };
  const create = async (by: User): Promise<number> => (await by.post("keys", body)).status;
  const made = await own.post("keys", body);
  for (let active = 2; active < 10; active++) assert.equal(await create(own), 201);
  const refused = await own.post("keys", body);
  assert.deepEqual([refused.status, refused.body.error_code], [409, "GATEWAY_CONFLICT"]);
  assert.match(refused.body.error, /allows 10 active keys/);
  const rotate = async (overlap_seconds: number): Promise<number> =>
    (await own.post(`keys/${made.body.key.id}/rotate`, { overlap_seconds })).status;
  assert.equal(await rotate(60), 409);
  assert.equal(await rotate(0), 201);
  assert.equal(await create(admin), 201, "a platform administrator is not limited");

  for (let n = 12; n < 30; n++) assert.equal(await create(own), 409);
  const many = await own.post(`keys/${tenant.keyId}/edit`, { name: "x" });
  assert.deepEqual([many.status, many.body.error_code], [429, "GATEWAY_RATE_LIMITED"]);
  assert.match(many.body.error, /30 times a minute/);
  assert.ok(Number(many.headers.get("retry-after")) > 0);
  assert.equal(await create(admin), 201);
});

test("the input for a new key is validated strictly", async () => {
  const good = { workspace_id: shared.workspaceId, name: "x", capabilities: ["inference"] };
  const wrong: readonly object[] = [
    { name: "" },
    { name: "a\u0007b" },
    { name: "x".repeat(201) },
    { name: 1 },
    { capabilities: [] },
    { capabilities: ["everything"] },
    { capabilities: ["inference", "inference"] },
    { rps_limit: 0 },
    { rps_limit: "5" },
    { cu_limit_24h_milli: 1.5 },
    { cu_limit_30d_milli: -1 },
    { cu_limit_30d_milli: 2 ** 53 },
    { allowed_addresses: [] },
    { allowed_addresses: ["300.1.1.1"] },
    { expires_in_seconds: 0 },
    { environment: "prod" },
  ];
  for (const body of [{}, ...wrong.map((each) => ({ ...good, ...each }))]) {
    const answer = await operator.post("keys", body);
    assert.equal(answer.status, 400, JSON.stringify(body));
    assert.equal(answer.body.error_code, "GATEWAY_SCHEMA_VIOLATION");
  }
  assert.equal((await operator.post("keys", { ...good, workspace_id: "ws_none" })).status, 404);
  for (const seconds of [undefined, -1, 1.5, 1e9]) {
    const path = `keys/${shared.tenant.keyId}/rotate`;
    const { status } = await operator.post(path, { overlap_seconds: seconds });
    assert.equal(status, 400, String(seconds));
  }
  assert.equal((await operator.post("keys/key_none/revoke", {})).status, 404);
});

test("only a platform administrator can see health, the pipeline, its file and the plugins", async () => {
  await using gateway = await startWatched();
  await call(gateway, gateway.key);
  await call(gateway, undefined);
  await call(gateway, gateway.key, "/free?x=1");
  const admin = await userOf(gateway, gateway.key);
  const health = (await admin.get("health")).body;
  assert.deepEqual([health.ready, health.checks.journal, health.ledgers], [true, "ok", []]);
  assert.ok(health.process.memory_bytes > 0);

  const { routes } = (await admin.get("routes")).body;
  assert.deepEqual(all(routes, "path"), ["/call", "/free", "(unmatched)"]);
  const [called, free] = routes;
  const names = ["request-id", "authenticate", "authorize", "meter"];
  assert.deepEqual(all(called.steps, "name"), names);
  assert.deepEqual(new Set(all(called.steps, "mode")), new Set(["enforce"]));
  assert.equal(called.surface.name, "discovery");
  assert.deepEqual([called.requests["2xx"], called.requests["4xx"]], [1, 1]);
  const [, , authorize, meter] = called.steps;
  assert.deepEqual(authorize.refusals, { GATEWAY_UNAUTHORIZED: 1 });
  assert.ok(meter.mean_ms > 0 && meter.p95_ms > 0);
  const { timed, errors, timeouts, skips } = meter;
  assert.deepEqual([timed, errors, timeouts, skips], [1, 0, 0, 0]);
  assert.deepEqual([free.steps.at(-1).mode, free.steps.at(-1).refusals], ["shadow", {}]);

  const { plugins } = (await admin.get("plugins")).body;
  const step = plugins.find((each: Record<string, unknown>) => each["name"] === "authenticate");
  assert.deepEqual([step.kind, step.origin, step.has_grants], ["step", "sluice", false]);

  const tenant = await userOf(gateway, gateway.tenant.key);
  for (const path of ["health", "routes", "pipeline-file", "stores", "plugins"]) {
    const refused = await tenant.get(path);
    assert.equal(refused.status, 403, path);
    assert.equal(refused.body.error_code, "GATEWAY_PERMISSION_DENIED");
  }
});

test("explain: a platform administrator sees every request, and the administrator of a workspace those of its keys", async () => {
  const tenant = await userOf(shared, shared.tenant.key);
  // Clients choose the ids, so all of these requests have the same one.
  for (const key of [shared.key, shared.tenant.key, undefined]) await callAs(key, "same");
  const { status, body } = await tenant.get("explain?id=same");
  assert.equal(status, 200);
  assert.deepEqual(all(body.exchanges, "key_id"), [shared.tenant.keyId]);
  assert.deepEqual(all(body.exchanges, "status"), [200]);
  assert.equal(body.missing, undefined);
  await callAs(shared.key, "other");
  assert.equal((await tenant.get("explain?id=other")).status, 404);
  assert.equal((await ask(shared, "explain?id=same")).status, 401);

  const { exchanges } = (await operator.get("explain?id=same")).body;
  assert.equal(exchanges.length, 3);
  const refused = exchanges.find(({ code }: { code?: string }) => code !== undefined);
  assert.equal(refused.code, "GATEWAY_UNAUTHORIZED");
  const did = ["passed", "passed", "refused", "not reached", "not reached"];
  assert.deepEqual(all(refused.steps, "did"), did);
  assert.equal((await operator.get("explain?id=unknown")).status, 404);
  assert.equal((await operator.get("explain")).status, 400);
});

test("while the store cannot be read, the API reports that and the page is still served", async () => {
  await using gateway = await startWatched();
  const admin = await userOf(gateway, gateway.key);
  const db = new DatabaseSync(`${gateway.folder}/data/state.db`);
  db.exec("ALTER TABLE keys RENAME TO lost");
  db.close();
  const unavailable = {
    error: "temporarily unavailable",
    error_code: "GATEWAY_SERVICE_UNAVAILABLE",
  };
  for (const path of ["session", "keys", "live"]) {
    const { status, body } = await admin.get(path);
    assert.deepEqual([status, body], [503, unavailable], path);
  }
  assert.equal((await fetch(`${gateway.adminUrl}/dashboard`)).status, 200);
});

test("live: the latest requests are filtered by status, code, key, route, call and request id", async () => {
  await using gateway = await startWatched();
  const { tenant } = gateway;
  const admin = await userOf(gateway, gateway.key);
  const own = await userOf(gateway, tenant.key);
  await admin.get("live");
  const calls = [
    [gateway.key, "/call"],
    [tenant.key, "/call"],
    [undefined, "/call"],
    [gateway.key, "/free"],
  ] as const;
  for (const [count, [key, path]] of calls.entries()) {
    await call(gateway, key, path);
    // A client can have its answer before the exchange is recorded.
    while ((await admin.get("live")).body.searched === count);
  }
  const found = async (query: string): Promise<string[]> => {
    const { status, body } = await admin.get(`live?${query}`);
    assert.deepEqual([status, body.searched], [200, 4], query);
    return body.exchanges.map(
      ({ route, status: code }: Record<string, string>) => `${route} ${code}`,
    );
  };
  const newest = (await admin.get("live")).body.exchanges[0];
  assert.equal(newest.key_name, "test");
  for (const [query, expected] of [
    ["status=4xx", "/call 401"],
    ["status=401&route=CALL", "/call 401"],
    ["status=403", ""],
    ["code=unauth", "/call 401"],
    ["route=/fr", "/free 200"],
    [`key=${tenant.keyId}`, "/call 200"],
    ["key=TEST", "/free 200,/call 200,/call 200"],
    ["key=nobody", ""],
    ["call=state_call", ""],
    [`request=${newest.request_id}`, "/free 200"],
  ] as const) {
    assert.equal((await found(query)).join(), expected, query);
  }
  for (const wrong of ["status=abc", "status=4x", `code=${"x".repeat(101)}`, "other=1"]) {
    assert.equal((await admin.get(`live?${wrong}`)).status, 400, wrong);
  }
  // The filter by a key's name finds only keys of the viewer's own workspace.
  await own.get("live");
  await call(gateway, tenant.key);
  while ((await own.get("live")).body.searched < 1);
  assert.deepEqual((await own.get(`live?key=${gateway.keyId}`)).body.exchanges, []);
});

test("a change with the same Idempotency-Key is made once, and the text of a key is not stored", async () => {
  const workspace = await operator.post("workspaces", { name: "Once", plan: "free" });
  const { id } = workspace.body.workspace;
  const once = (form: string | undefined, path: string, body: object): ReturnType<User["post"]> =>
    operator.post(path, body, { "idempotency-key": form });
  const purchase = `workspaces/${id}/purchase`;
  const body = { amount_cu_milli: 500 };
  const bought = await once("form-00000001", purchase, body);
  const again = await once("form-00000001", purchase, body);
  assert.equal(bought.status, 200);
  assert.deepEqual(again.body, bought.body);
  assert.equal(again.headers.get("idempotent-replayed"), "true");
  assert.equal(again.body.workspace.purchased_cu_milli, 500);
  const other = await once("form-00000001", purchase, { amount_cu_milli: 1 });
  assert.equal(other.body.error_code, "GATEWAY_IDEMPOTENCY_KEY_MISMATCH");

  const key = { workspace_id: id, name: "k", capabilities: ["ledger:read"] };
  const made = await once("form-00000002", "keys", key);
  assert.match(made.body.secret, /^gateway_dev_/);
  const repeated = await once("form-00000002", "keys", key);
  assert.deepEqual([repeated.status, repeated.body.secret], [201, undefined]);
  assert.equal(repeated.body.key.id, made.body.key.id);

  // A refused change is not stored: the corrected form may be sent with the same key.
  const wrong = await once("form-00000003", purchase, { amount_cu_milli: 0 });
  assert.equal(wrong.body.error_code, "GATEWAY_SCHEMA_VIOLATION");
  assert.equal((await once("form-00000003", purchase, body)).status, 200);
  for (const form of [undefined, "short", "with a space"]) {
    const keyless = await once(form, purchase, body);
    assert.equal(keyless.body.error_code, "GATEWAY_INVALID_IDEMPOTENCY_KEY");
  }
});

test("workspaces: created, changed and searched by platform administrators only, and recorded with the actor", async () => {
  const made = await operator.post("workspaces", { name: "Acme", plan: "startup" });
  assert.equal(made.status, 201);
  const { id } = made.body.workspace;
  const change = (what: string, body: object): ReturnType<User["post"]> =>
    operator.post(`workspaces/${id}/${what}`, body);
  for (const limit of [10, null]) {
    const { workspace } = (await change("settings", { overage_limit_cu_milli: limit })).body;
    assert.equal(workspace.overage_limit_cu_milli, limit ?? undefined);
  }
  assert.equal((await change("downgrade", { plan: "enterprise" })).status, 409);
  assert.equal((await change("downgrade", { plan: "free" })).body.pending_plan, "free");
  assert.equal((await change("cancel-downgrade", {})).body.pending_plan, undefined);
  assert.equal((await change("cancel-downgrade", {})).status, 409);
  const unknown = await operator.post("workspaces/ws_none/purchase", { amount_cu_milli: 1 });
  assert.equal(unknown.status, 404);
  assert.equal((await change("settings", { plan: "gold" })).status, 400);

  assert.deepEqual(all((await operator.get("workspaces?q=ACM")).body.workspaces, "id"), [id]);
  const { changes } = (await operator.get(`changes?workspace=${id}`)).body;
  const actions = ["cancel-downgrade", "downgrade", "set", "set", "create"];
  assert.deepEqual(
    all(changes, "action"),
    actions.map((action) => `workspace.${action}`),
  );
  assert.deepEqual(new Set(all(changes, "actor")), new Set([shared.keyId]));
  const older = await operator.get(`changes?workspace=${id}&before=${changes[3].id}`);
  assert.equal(older.body.changes.length, 1);
  assert.equal((await operator.get("changes?before=x")).status, 400);

  const { workspaceId } = shared.tenant;
  const tenant = await userOf(shared, shared.tenant.key);
  assert.deepEqual(all((await tenant.get("workspaces")).body.workspaces, "id"), [workspaceId]);
  assert.equal((await tenant.get(`changes?workspace=${id}`)).status, 404);
  const visible = (await tenant.get("changes")).body.changes;
  assert.deepEqual(new Set(all(visible, "workspace_id")), new Set([workspaceId]));
  const tried = await tenant.post(`workspaces/${workspaceId}/settings`, { plan: "enterprise" });
  assert.equal(tried.status, 403);
});

test("keys: an edit changes the given members, null removes a limit, and nobody grants more than they may", async () => {
  const { keyId } = await shared.issue({ capabilities: [] });
  const edit = `keys/${keyId}/edit`;
  const limits = { rps_limit: 5, cu_limit_24h_milli: 100, expires_in_seconds: 3600 };
  const { key: set } = (await operator.post(edit, { name: "new", ...limits })).body;
  assert.deepEqual([set.name, set.rps_limit], ["new", 5]);
  assert.ok(set.expires_at !== undefined);
  const none = { rps_limit: null, expires_in_seconds: null };
  const { key: cleared } = (await operator.post(edit, none)).body;
  assert.deepEqual([cleared.rps_limit, cleared.expires_at], [undefined, undefined]);
  assert.equal(cleared.cu_limit_24h_milli, 100);
  assert.equal((await operator.post(edit, {})).status, 400);
  const tenant = await userOf(shared, shared.tenant.key);
  const grant = { capabilities: ["platform:admin"] };
  assert.equal((await tenant.post(`keys/${shared.tenant.keyId}/edit`, grant)).status, 403);
  assert.equal((await tenant.post(`keys/${shared.keyId}/edit`, { name: "x" })).status, 404);
  const pages = await operator.get("keys?page=1");
  assert.deepEqual([pages.body.keys, pages.body.has_more], [[], false]);
  assert.equal((await operator.get("keys?page=-1")).status, 400);
});
