/** Tests of the state machine of connections to PostgreSQL: their limits, transactions, failures and end. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { test, type TestContext } from "node:test";
import type { RunStatement } from "../../../src/contract/store.ts";
import { createMetrics, type RenderedMetrics } from "../../../src/base/metrics.ts";
import { explainPostgres, PostgresFailure } from "../../../src/store/postgres/failure.ts";
import { openPostgres, type PostgresPool } from "../../../src/store/postgres/postgres.ts";
import { startFaultProxy } from "../fault-proxy.ts";
import { createDatabase } from "../servers.ts";

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
