/** Tests of the algorithm that creates and checks the tables of a PostgreSQL database. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { test, type TestContext } from "node:test";
import { createMetrics } from "../../../src/base/metrics.ts";
import { openPostgres, type PostgresPool } from "../../../src/store/postgres/postgres.ts";
import {
  checkSchema,
  schemaVersion,
  upgradeSchema,
} from "../../../src/store/postgres/migrations.ts";
import { createSeal } from "../../../src/store/seal.ts";
import { createDatabase, startPgBouncer } from "../servers.ts";

const seal = createSeal("a secret of this deployment");
const first = { name: "one", sql: "CREATE TABLE sluice.one (id int)" };
const second = { name: "two", sql: "CREATE TABLE sluice.two (id int)" };
const breaking = { name: "three", sql: "DROP TABLE sluice.one", excludesOlder: true };

async function open(t: TestContext, url?: string): Promise<PostgresPool> {
  const pool = openPostgres({
    url: url ?? (await createDatabase(t)),
    replica: "one",
    metrics: createMetrics(),
  });
  t.after(() => pool.close());
  return pool;
}

test("upgrades run the missing scripts once, in order", async (t) => {
  const pool = await open(t);
  assert.equal(await schemaVersion(pool), 0);
  assert.deepEqual(await upgradeSchema(pool, [first], seal), { before: 0, after: 1 });
  assert.deepEqual(await upgradeSchema(pool, [first, second], seal), { before: 1, after: 2 });
  assert.deepEqual(await upgradeSchema(pool, [first, second], seal), { before: 2, after: 2 });
  assert.equal(await schemaVersion(pool), 2);
  await checkSchema(pool, [first, second], seal);
});

test("the scripts of a module that is added later run, wherever the module is in the order", async (t) => {
  const pool = await open(t);
  await upgradeSchema(pool, [second], seal);
  assert.deepEqual(await upgradeSchema(pool, [first, second], seal), { before: 1, after: 2 });
  await checkSchema(pool, [first, second], seal);
});

test("upgrades at the same time wait for each other, also through PgBouncer", async (t) => {
  const direct = await createDatabase(t);
  const bounced = await startPgBouncer(t, direct);
  if (bounced === undefined) return;
  const pools = await Promise.all([direct, bounced, bounced].map((url) => open(t, url)));
  const done = await Promise.all(pools.map((pool) => upgradeSchema(pool, [first, second], seal)));
  assert.deepEqual(
    done.map(({ before }) => before).toSorted((a, b) => a - b),
    [0, 2, 2],
  );
});

test("a script that fails leaves nothing behind", async (t) => {
  const pool = await open(t);
  const broken = { name: "one", sql: "CREATE TABLE sluice.one (id int); SELECT 1 / 0" };
  await assert.rejects(upgradeSchema(pool, [broken], seal), { code: "22012" });
  assert.equal(await schemaVersion(pool), 0);
});

test("a database without the tables of this release is a fault with a remedy", async (t) => {
  const pool = await open(t);
  await assert.rejects(checkSchema(pool, [first], seal), {
    code: "SLUICE_STORE_OLDER",
    message: "the PostgreSQL database has no tables of Sluice",
    remedy: "Run `sluice store upgrade`.",
  });
  await upgradeSchema(pool, [first], seal);
  await assert.rejects(checkSchema(pool, [first, second], seal), {
    code: "SLUICE_STORE_OLDER",
    message: "the PostgreSQL database is older than this release: it lacks the tables of two",
  });
});

test("older code works with newer tables until a script excludes it", async (t) => {
  const pool = await open(t);
  await upgradeSchema(pool, [first, second], seal);
  await checkSchema(pool, [first], seal);
  await upgradeSchema(pool, [first, second, breaking], seal);
  await assert.rejects(checkSchema(pool, [first], seal), { code: "SLUICE_STORE_NEWER" });
  await assert.rejects(upgradeSchema(pool, [first], seal), { code: "SLUICE_STORE_NEWER" });
});

test("the documented commands enter another secret of the deployment", async (t) => {
  const pool = await open(t);
  await upgradeSchema(pool, [first], seal);
  const page = readFileSync(new URL("../../../docs/operations.md", import.meta.url), "utf8");
  const [, compute = "", statement = ""] =
    /^(check=.+)\npsql "\$DATABASE_URL" -c (".+")$/m.exec(page) ?? [];
  const env = { ...process.env, GATEWAY_SECRET: "a new secret of this deployment" };
  const sql = execFileSync("sh", ["-c", `${compute}\nprintf %s ${statement}`], { env });
  await pool.query("main", sql.toString());
  await checkSchema(pool, [first], createSeal(env.GATEWAY_SECRET));
  await assert.rejects(checkSchema(pool, [first], seal), { code: "SLUICE_STORE_SECRET" });
});

test("another deployment secret is a fault", async (t) => {
  const pool = await open(t);
  await upgradeSchema(pool, [first], seal);
  const other = createSeal("a secret of another deployment");
  await assert.rejects(checkSchema(pool, [first], other), { code: "SLUICE_STORE_SECRET" });
  await assert.rejects(upgradeSchema(pool, [first], other), { code: "SLUICE_STORE_SECRET" });
});
