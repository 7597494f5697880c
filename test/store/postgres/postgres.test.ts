/** Tests of connections to PostgreSQL, of the algorithm that creates and checks its tables, and of claims after a restore. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { test, type TestContext } from "node:test";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import type { RunStatement } from "../../../src/contract/store.ts";
import { createMetrics, type RenderedMetrics } from "../../../src/base/metrics.ts";
import { explainPostgres, PostgresFailure } from "../../../src/store/postgres/failure.ts";
import { openPostgres, type PostgresPool } from "../../../src/store/postgres/postgres.ts";
import { startFaultProxy } from "../fault-proxy.ts";
import { createDatabase, startPgBouncer, runSql } from "../servers.ts";
import {
  checkSchema,
  schemaVersion,
  upgradeSchema,
} from "../../../src/store/postgres/migrations.ts";
import { createSeal } from "../../../src/store/seal.ts";
import { claimTables, openClaims, type ClaimsService } from "../../../src/store/claims.ts";
import { postgresSql } from "../../../src/store/sql/postgres-sql.ts";
import { postgresScripts } from "../../../src/store/sql/tables.ts";
import { systemClock } from "../../../src/base/clock.ts";
import { until } from "../../plugins/billing/shipping/fixture.ts";
import { silentLog } from "../../test-log.ts";
import { createSession } from "../../../src/store/session.ts";

function open(
  t: TestContext,
  url: string,
  statementMs?: number,
): { pool: PostgresPool; metrics: RenderedMetrics } {
  const metrics = createMetrics();
  const pool = openPostgres({
    url,
    replica: "one",
    metrics,
    ...(statementMs !== undefined && { statementMs }),
  });
  t.after(() => pool.close());
  return { pool, metrics };
}

function at(url: string, port: number): string {
  const changed = new URL(url);
  changed.port = String(port);
  return changed.href;
}

async function startOther(t: TestContext, serve: (socket: Socket) => void): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    serve(socket);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  // It listens on TCP.
  return `postgres://user:hunter2@127.0.0.1:${(server.address() as AddressInfo).port}/db`;
}

test("bigint columns are numbers, and one above 2^53 - 1 fails its statement alone", async (t) => {
  const { pool } = open(t, await createDatabase(t));
  const [row] = await pool.query("test", "SELECT 9007199254740991::bigint AS n");
  assert.deepEqual(row, { n: Number.MAX_SAFE_INTEGER });
  await assert.rejects(pool.query("test", "SELECT 9007199254740992::bigint AS n"), {
    message: "9007199254740992 is not a safe integer",
  });
  assert.deepEqual(await pool.query("test", "SELECT 1 AS n"), [{ n: 1 }]);
});

test("round trips are counted by lane, and the gauge has the time of the last answer", async (t) => {
  const url = await createDatabase(t);
  await using proxy = await startFaultProxy(Number(new URL(url).port));
  const { pool, metrics } = open(t, at(url, proxy.port));
  await pool.query("post", "SELECT 1");
  await pool.query("post", "SELECT 1");
  const shown = async (): Promise<string> => await metrics.render();
  assert.match(await shown(), /round_trips_total\{store="postgres",lane="post"\} 2\n/);
  assert.match(await shown(), /sluice_store_postgres_up 1\n/);
  proxy.refuses = true;
  proxy.reset();
  await assert.rejects(pool.query("post", "SELECT 1"), PostgresFailure);
  assert.match(await shown(), /sluice_store_postgres_up 0\n/);
  proxy.refuses = false;
  // The pool may still hold a connection that it does not know to be broken.
  await pool.query("post", "SELECT 1").catch(() => pool.query("post", "SELECT 1"));
  assert.match(await shown(), /sluice_store_postgres_up 1\n/);
});

test("a statement without an answer fails after its limit, and its connection is closed", async (t) => {
  const url = await createDatabase(t);
  await using proxy = await startFaultProxy(Number(new URL(url).port));
  const { pool } = open(t, at(url, proxy.port), 300);
  const me = "SELECT pg_backend_pid() AS pid";
  const [before] = await pool.query("test", me);
  proxy.stalled = "down";
  await assert.rejects(pool.query("test", "SELECT 1"), { isRefused: false });
  proxy.stalled = "none";
  assert.notDeepEqual(await pool.query("test", me), [before]);
});

test("when a transaction has failed, its locks have ended, and its work can send nothing more", async (t) => {
  const url = await createDatabase(t);
  const { pool } = open(t, url);
  const { pool: other } = open(t, url);
  let late: RunStatement | undefined;
  const lock = "SELECT pg_try_advisory_xact_lock(7) AS locked";
  for (let n = 0; n < 20; n++) {
    const failed = pool.transaction("test", async (run) => {
      late = run;
      assert.deepEqual(await run(lock), [{ locked: true }]);
      throw new Error("a bug");
    });
    await assert.rejects(failed, /a bug/);
    assert.deepEqual(await other.query("test", lock), [{ locked: true }]);
  }
  await assert.rejects(async () => late?.("SELECT 1"), /the transaction has ended/);
});

test("a server that violates the protocol fails statements, and the process continues", async (t) => {
  const answers = [
    Buffer.from("HTTP/1.1 400 Bad Request\r\n\r\n"),
    // An authentication request of an unknown kind, for which `pg` throws while it parses.
    Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 99]),
    // A row before any description of its columns.
    Buffer.from([0x44, 0, 0, 0, 6, 0, 1]),
    // A message that claims to be shorter than its own length field.
    Buffer.from([0x45, 0, 0, 0, 0, 0, 0, 0, 0]),
    ...Array.from({ length: 20 }, () => randomBytes(64)),
  ];
  for (const answer of answers) {
    const url = await startOther(t, (socket) => void socket.once("data", () => socket.end(answer)));
    const { pool } = open(t, url, 500);
    await assert.rejects(pool.query("test", "SELECT 1"), PostgresFailure, answer.toString("hex"));
  }
});

test("a fault at the start names the position and never contains the password", async (t) => {
  const url = await startOther(t, (socket) => void socket.destroy());
  const { pool } = open(t, url);
  const place = new URL(url).host;
  const error = await pool.query("test", "SELECT 1").catch((caught: unknown) => caught);
  const { code, message, remedy, member } = explainPostgres(error, place);
  assert.equal(code, "SLUICE_STORE_UNREACHABLE");
  assert.equal(member, "postgres");
  assert.ok(message.includes(place));
  assert.doesNotMatch(message + remedy + String(error), /hunter2/);
});

test("closing ends connections that hang", async (t) => {
  const url = await startOther(t, () => {});
  const pool = openPostgres({ url, replica: "one", metrics: createMetrics() });
  const failed = assert.rejects(pool.query("test", "SELECT 1"), PostgresFailure);
  await pool.close();
  await failed;
});

test("statements on separate connections do not wait for others, and those that wait are limited", async (t) => {
  const url = await createDatabase(t);
  const pool = openPostgres({ url, replica: "one", metrics: createMetrics() });
  const separate = pool.separate({ connections: 1, statementMs: 2_000 });
  const [lock, waitForLock] = ["SELECT pg_advisory_lock(1)", "SELECT pg_advisory_xact_lock(1)"];
  await pool.separate({ connections: 1, statementMs: 2_000 }).query("test", lock);
  const locked = (): Promise<unknown> => pool.query("test", waitForLock);
  const waiting = Array.from({ length: 1_004 }, () => locked().catch(() => "ended"));
  await assert.rejects(locked(), {
    message: "1000 statements are already waiting for a connection",
    isRefused: false,
  });
  assert.deepEqual(await separate.query("test", "SELECT 1 AS n"), [{ n: 1 }]);
  await assert.rejects(separate.query("test", "SELECT pg_sleep(10)"), /timeout/);
  await pool.close();
  assert.deepEqual(new Set(await Promise.all(waiting)), new Set(["ended"]));
  await assert.rejects(separate.query("test", "SELECT 1"));
});

const seal = createSeal("a secret of this deployment");
const first = { name: "one", sql: "CREATE TABLE sluice.one (id int)" };
const second = { name: "two", sql: "CREATE TABLE sluice.two (id int)" };
const breaking = { name: "three", sql: "DROP TABLE sluice.one", excludesOlder: true };

async function openEmpty(t: TestContext): Promise<PostgresPool> {
  return open(t, await createDatabase(t)).pool;
}

test("upgrades run the missing scripts once, in order", async (t) => {
  const pool = await openEmpty(t);
  assert.equal(await schemaVersion(pool), 0);
  assert.deepEqual(await upgradeSchema(pool, [first], seal), { before: 0, after: 1 });
  assert.deepEqual(await upgradeSchema(pool, [first, second], seal), { before: 1, after: 2 });
  assert.deepEqual(await upgradeSchema(pool, [first, second], seal), { before: 2, after: 2 });
  assert.equal(await schemaVersion(pool), 2);
  await checkSchema(pool, [first, second], seal);
});

test("the scripts of a module that is added later run, wherever the module is in the order", async (t) => {
  const pool = await openEmpty(t);
  await upgradeSchema(pool, [second], seal);
  assert.deepEqual(await upgradeSchema(pool, [first, second], seal), { before: 1, after: 2 });
  await checkSchema(pool, [first, second], seal);
});

test("upgrades at the same time wait for each other, also through PgBouncer", async (t) => {
  const direct = await createDatabase(t);
  const bounced = await startPgBouncer(t, direct);
  if (bounced === undefined) return;
  const pools = [direct, bounced, bounced].map((url) => open(t, url).pool);
  const done = await Promise.all(pools.map((pool) => upgradeSchema(pool, [first, second], seal)));
  assert.deepEqual(
    done.map(({ before }) => before).toSorted((a, b) => a - b),
    [0, 2, 2],
  );
});

test("a script that fails leaves nothing behind", async (t) => {
  const pool = await openEmpty(t);
  const broken = { name: "one", sql: "CREATE TABLE sluice.one (id int); SELECT 1 / 0" };
  await assert.rejects(upgradeSchema(pool, [broken], seal), { code: "22012" });
  assert.equal(await schemaVersion(pool), 0);
});

test("a database without the tables of this release is a fault with a remedy", async (t) => {
  const pool = await openEmpty(t);
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
  const pool = await openEmpty(t);
  await upgradeSchema(pool, [first, second], seal);
  await checkSchema(pool, [first], seal);
  await upgradeSchema(pool, [first, second, breaking], seal);
  await assert.rejects(checkSchema(pool, [first], seal), { code: "SLUICE_STORE_NEWER" });
  await assert.rejects(upgradeSchema(pool, [first], seal), { code: "SLUICE_STORE_NEWER" });
});

test("the documented commands enter another secret of the deployment", async (t) => {
  const pool = await openEmpty(t);
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
  const pool = await openEmpty(t);
  await upgradeSchema(pool, [first], seal);
  const other = createSeal("a secret of another deployment");
  await assert.rejects(checkSchema(pool, [first], other), { code: "SLUICE_STORE_SECRET" });
  await assert.rejects(upgradeSchema(pool, [first], other), { code: "SLUICE_STORE_SECRET" });
});

test("after a restore, which gives numbers of endings again, a running gateway still follows", async (t) => {
  const url = await createDatabase(t);
  const { pool } = open(t, url);
  await upgradeSchema(pool, postgresScripts(claimTables), seal);
  const openOne = async (): Promise<ClaimsService> => {
    const sql = postgresSql(pool, "claims");
    const session = createSession(sql.query, systemClock);
    const claims = await openClaims(sql, session, systemClock, silentLog);
    t.after(() => claims.close());
    return claims;
  };
  const one = await openOne();
  const two = await openOne();
  const later = Date.now() + 60_000;
  for (const id of ["a", "b", "c"]) await one.end(id, later);
  await until(() => Promise.resolve(two.hasEnded("c")));
  await runSql(
    url,
    "DELETE FROM sluice.endings WHERE id <> 'a'",
    "SELECT setval('sluice.endings_no', 1)",
  );
  await one.end("d", later);
  await until(() => Promise.resolve(two.hasEnded("d")));
  assert.ok(two.hasEnded("b"), "what has ended stays ended");
});
