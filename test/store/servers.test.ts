import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { test } from "node:test";
import { startFaultProxy } from "./fault-proxy.ts";
import { startRedis } from "./redis-server.ts";
import { createDatabase, runSql, startPgBouncer } from "./servers.ts";

test("each test file gets an empty database of its own", async (t) => {
  const url = await createDatabase(t);
  await runSql(url, "CREATE TABLE one (id int)");
  const other = await createDatabase(t);
  assert.deepEqual(await runSql(other, "SELECT to_regclass('one') AS found"), [{ found: null }]);
});

test("PgBouncer passes transactions on", async (t) => {
  const url = await startPgBouncer(t, await createDatabase(t));
  if (url === undefined) return;
  assert.deepEqual(await runSql(url, "SELECT 1 AS one"), [{ one: 1 }]);
});

test("Redis answers", async (t) => {
  const redis = await startRedis(t);
  if (redis === undefined) return;
  const socket = connect(redis.port, "127.0.0.1");
  t.after(() => socket.destroy());
  socket.write("PING\r\n");
  const [answer] = (await once(socket, "data")) as [Buffer];
  assert.equal(answer.toString(), "+PONG\r\n");
});

test("a dropped reply leaves the transaction committed and the client without an answer", async (t) => {
  const direct = new URL(await createDatabase(t));
  await runSql(direct.href, "CREATE TABLE kept (id int)");
  await using proxy = await startFaultProxy(Number(direct.port));
  const through = new URL(direct);
  through.port = String(proxy.port);
  proxy.dropAfter = "INSERT INTO kept";
  proxy.repliesToDrop = 1;
  await assert.rejects(runSql(through.href, "INSERT INTO kept VALUES (1)"));
  assert.equal(proxy.dropped, 1);
  assert.deepEqual(await runSql(through.href, "SELECT id FROM kept"), [{ id: 1 }]);
});

test("a request that is held reaches the server after its client has left", async (t) => {
  const direct = new URL(await createDatabase(t));
  await runSql(direct.href, "CREATE TABLE kept (id int)");
  await using proxy = await startFaultProxy(Number(direct.port));
  const through = new URL(direct);
  through.port = String(proxy.port);
  proxy.holdAfter = "INSERT INTO kept";
  proxy.requestsToHold = 1;
  const lost = assert.rejects(runSql(through.href, "INSERT INTO kept VALUES (1)"));
  while (proxy.held === 0) await runSql(direct.href, "SELECT");
  proxy.reset();
  await lost;
  await runSql(through.href, "INSERT INTO kept VALUES (2)");
  await proxy.release();
  assert.equal(proxy.held, 0);
  assert.deepEqual(await runSql(direct.href, "SELECT id FROM kept"), [{ id: 2 }, { id: 1 }]);
});

test("a proxy that refuses resets each connection", async (t) => {
  const direct = new URL(await createDatabase(t));
  await using proxy = await startFaultProxy(Number(direct.port));
  const through = new URL(direct);
  through.port = String(proxy.port);
  proxy.refuses = true;
  await assert.rejects(runSql(through.href, "SELECT 1"), { code: "ECONNRESET" });
});
