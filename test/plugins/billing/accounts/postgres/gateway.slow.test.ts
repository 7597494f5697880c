/** Whole gateways whose accounts are in PostgreSQL. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { startTestGateway, type TestGateway } from "../../../../../plugins/contracts/testing.ts";
import { keys } from "../../../../../plugins/billing/commands/keys.ts";
import { createMetrics } from "../../../../../src/base/metrics.ts";
import type { Clock } from "../../../../../src/plugin.ts";
import { storageOf } from "../../../../../src/store/plugin-entries.ts";
import { createPluginEntries } from "../../../../../src/store/plugin-storage.ts";
import { openPostgres } from "../../../../../src/store/postgres/postgres.ts";
import { postgresSql } from "../../../../../src/store/sql/postgres-sql.ts";
import { manualClock } from "../../../../../src/testing/clock.ts";
import { commandLine } from "../../../../commands/command-line.ts";
import { startFaultProxy } from "../../../../store/fault-proxy.ts";
import { runSql } from "../../../../store/servers.ts";
import { call as callAt, preparedDatabase as databaseOf } from "../../leases/gateway-fixture.ts";
import { until } from "../../shipping/fixture.ts";

/** The secret of `commandLine`. */
const secret = "at-least-sixteen-characters";
const pipeline = `version: 1
secret: ${secret}
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
metering: { durability: async }
store: { data: "\${DATA_DIR}", postgres: "\${DATABASE_URL}", replica: gateway-a }
routes:
  - path: /call
    methods: [GET]
    run: [request-id, authenticate, { authorize: { require: key } }]
    to: discovery
  - path: "/workspaces/{id}/purchase"
    methods: [POST]
    run: [request-id, authenticate, idempotency, { authorize: { require: "workspace:admin" } }]
    to: { workspaces: { do: purchase } }
`;

/** The gateway shares credit through the database, and charges each call. */
const sharingPipeline = pipeline
  .replace("durability: async", "durability: settled")
  .replace("{ require: key } }]", "{ require: key } }, { meter: { price: 10 } }]");

async function start(url: string, clock?: Clock, file = pipeline): Promise<TestGateway> {
  return startTestGateway({
    pipeline: file,
    env: { DATABASE_URL: url },
    account: { capabilities: ["workspace:admin"] },
    ...(clock !== undefined && { clock }),
  });
}

const preparedDatabase = (t: TestContext): Promise<string> => databaseOf(t, secret);
const call = ({ url }: TestGateway, key: string): Promise<number> => callAt(url, key);

async function purchase(gateway: TestGateway, idempotencyKey: string): Promise<Response> {
  return fetch(`${gateway.url}/workspaces/${gateway.workspaceId}/purchase`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${gateway.key}`,
      "content-type": "application/json",
      "idempotency-key": `gateway_${idempotencyKey}`,
    },
    body: JSON.stringify({ amount_cu_milli: 5 }),
  });
}

test("while PostgreSQL is away, `async` keeps keys in memory valid for 5 seconds, and changes are answered with 503", async (t) => {
  const url = await preparedDatabase(t);
  await using proxy = await startFaultProxy(Number(new URL(url).port));
  const through = new URL(url);
  through.port = String(proxy.port);
  const clock = manualClock(Date.now());
  await using gateway = await start(through.href, clock);
  assert.equal(await call(gateway, gateway.key), 200);

  proxy.refuses = true;
  proxy.reset();
  clock.advance(4_000);
  assert.equal(await call(gateway, gateway.key), 200);
  assert.equal((await fetch(`${gateway.url}/readyz`)).status, 200);
  const refused = await purchase(gateway, "fails-first");
  assert.equal(refused.status, 503, await refused.text());
  clock.advance(1_500);
  assert.equal(await call(gateway, gateway.key), 503);
  assert.equal((await fetch(`${gateway.url}/readyz`)).status, 503);

  proxy.refuses = false;
  await until(async () => {
    clock.advance(250);
    if ((await call(gateway, gateway.key)) !== 200) return false;
    return (await fetch(`${gateway.url}/readyz`)).status === 200;
  });
  assert.equal((await purchase(gateway, "fails-first")).status, 200);
});

/** Creates a user. Returns the URL with which it connects. `grants`: the rights of the user with this name. */
async function createUser(
  t: TestContext,
  url: string,
  grants: (role: string) => readonly string[],
): Promise<{ readonly role: string; readonly href: string }> {
  const connection = new URL(url);
  const role = `user_${connection.pathname.slice(6, 20)}`;
  await runSql(url, `CREATE ROLE ${role} LOGIN`, ...grants(role));
  t.after(() => runSql(url, `DROP OWNED BY ${role}`, `DROP ROLE ${role}`));
  connection.username = role;
  return { role, href: connection.href };
}

/** The rights that docs/replicas.md lists. */
function documentedRights(role: string): string[] {
  const docs = readFileSync(join(import.meta.dirname, "../../../../../docs/replicas.md"), "utf8");
  const grants =
    /```sql\n(GRANT .*?)```/s.exec(docs)?.[1] ?? assert.fail("the docs list no rights");
  return [grants.replaceAll(" TO gateway;", ` TO ${role};`)];
}

test("a user with the rights that the documentation lists serves, and cannot change what is final", async (t) => {
  const url = await preparedDatabase(t);
  const { href: limited } = await createUser(t, url, documentedRights);
  await using gateway = await start(limited, undefined, sharingPipeline);
  assert.equal(await call(gateway, gateway.key), 200);
  assert.deepEqual(await runSql(limited, "SELECT used_cu_milli::int AS used FROM sluice.usage"), [
    { used: 10 },
  ]);
  assert.equal((await purchase(gateway, "five")).status, 200);
  const { run } = commandLine(t, "dev", { DATABASE_URL: limited });
  assert.deepEqual((await run(keys, "revoke", gateway.keyId)).err, []);
  await until(async () => (await call(gateway, gateway.key)) === 401);
  const pool = openPostgres({ url: limited, replica: "test", metrics: createMetrics() });
  t.after(() => pool.close());
  const storage = storageOf("acme", createPluginEntries(postgresSql(pool, "storage")));
  for (const value of ["1", "2"]) await storage.set("a", value);
  await storage.delete("a");
  assert.deepEqual(await storage.list(), []);
  assert.doesNotMatch(gateway.lines.join("\n"), /permission denied/);
  for (const statement of [
    "DELETE FROM sluice.charges",
    "UPDATE sluice.charges SET used_cu_milli = 0",
    "INSERT INTO sluice.charges SELECT * FROM sluice.charges",
    "UPDATE sluice.replicas SET posted = 0",
    "DELETE FROM sluice.replicas",
    "DELETE FROM sluice.used",
    "UPDATE sluice.used SET milli_cu = 0",
    "UPDATE sluice.hours SET used = 0",
    "UPDATE sluice.changes SET actor = 'nobody'",
    "DROP TABLE sluice.keys",
    "UPDATE sluice.meta SET secret_check = ''",
  ]) {
    await assert.rejects(runSql(limited, statement), { code: "42501" }, statement);
  }
  // The audit log is final for its owner, too.
  for (const statement of ["UPDATE sluice.changes SET actor = ''", "DELETE FROM sluice.changes"]) {
    await assert.rejects(runSql(url, statement), /append-only/);
  }
});

test("a user for reports reads usage, and can execute no function of the ledger", async (t) => {
  const url = await preparedDatabase(t);
  const { role, href: reports } = await createUser(t, url, (user) => [
    `GRANT USAGE ON SCHEMA sluice TO ${user}`,
    `GRANT SELECT ON sluice.usage TO ${user}`,
  ]);
  await using gateway = await start(url, undefined, sharingPipeline);
  assert.equal(await call(gateway, gateway.key), 200);
  assert.deepEqual(await runSql(reports, "SELECT used_cu_milli::int AS used FROM sluice.usage"), [
    { used: 10 },
  ]);
  const functions = await runSql(
    url,
    `SELECT p.oid::regprocedure::text AS name, has_function_privilege('${role}', p.oid, 'EXECUTE') AS may
     FROM pg_proc p WHERE pronamespace = 'sluice'::regnamespace`,
  );
  assert.ok(functions.some(({ name }) => String(name).includes("credit_post(")));
  assert.deepEqual(
    functions.filter(({ may }) => may),
    [],
  );
  for (const statement of [
    "SELECT sluice.credit_post(1, 1, 1, '[]')",
    "SELECT sluice.credit_sweep()",
    "UPDATE sluice.replicas SET state = 'fenced'",
    "DELETE FROM sluice.leases",
  ]) {
    await assert.rejects(runSql(reports, statement), { code: "42501" }, statement);
  }
  assert.equal(await call(gateway, gateway.key), 200);
});

test("a charge with a negative amount is refused, even from a user who may post", async (t) => {
  const url = await preparedDatabase(t);
  const [row] = await runSql(
    url,
    `INSERT INTO sluice.replicas (name, version, mode, state, registered_at, heard_at)
     VALUES ('x', '1', 'settled', 'live', sluice.now_ms(), sluice.now_ms()) RETURNING id::int AS replica`,
  );
  const amounts = { used_cu_milli: 5, taken: 5, key_taken: 5 };
  const post = (change: object, no: number): Promise<unknown> => {
    const charge = {
      time: "2026-11-24T00:00:00Z",
      seq: no,
      workspace_id: "ws_1",
      key_id: "key_1",
      surface: "s",
      method: "m",
      request_id: "r",
      input_tokens: 0,
      output_tokens: 0,
      estimated: false,
      outcome: "complete",
      ...amounts,
      ...change,
    };
    return runSql(
      url,
      `SELECT sluice.credit_post(${Number(row?.["replica"])}, ${no}, ${no}, '${JSON.stringify([charge])}')`,
    );
  };
  for (const change of Object.keys(amounts).map((name) => ({ [name]: -1 }))) {
    await assert.rejects(post(change, 1), { code: "23514" }, JSON.stringify(change));
  }
  await post({}, 1);
  assert.deepEqual(await runSql(url, "SELECT used_cu_milli::int AS used FROM sluice.usage"), [
    { used: 5 },
  ]);
});

test("a user without rights is a fault that names the documentation", async (t) => {
  const url = await preparedDatabase(t);
  const { href } = await createUser(t, url, () => []);
  await assert.rejects(start(href), /SLUICE_STORE_FAILED: the user of store.postgres may not/);
});

test("a revocation names the gateways that have confirmed it, and the others", async (t) => {
  const url = await preparedDatabase(t);
  await using proxy = await startFaultProxy(Number(new URL(url).port));
  const through = new URL(url);
  through.port = String(proxy.port);
  await using gateway = await start(through.href);
  const { run, json } = commandLine(t, "dev", { DATABASE_URL: url });
  await until(async () => {
    const [row] = await runSql(
      url,
      "SELECT count(*)::int AS count FROM sluice.gateways WHERE marks ? 'accounts'",
    );
    return row?.["count"] === 1;
  });
  const made = await json(keys, "create", "--workspace", gateway.workspaceId);
  const revoked = await json(keys, "revoke", String(made["id"]));
  assert.deepEqual([revoked["confirmed_by"], revoked["not_confirmed_by"]], [["gateway-a"], []]);
  proxy.refuses = true;
  proxy.reset();
  const { code, out, err } = await run(keys, "revoke", gateway.keyId);
  assert.equal(code, 0);
  assert.match(out.join("\n"), /^confirmed_by +-$/m);
  assert.match(out.join("\n"), /^not_confirmed_by +gateway-a$/m);
  assert.match(err.join("\n"), /^Not confirmed within 2 s by: gateway-a\. A gateway that cannot/);
  proxy.refuses = false;
});
