/**
 * The database of gateways that share credit is replaced: a standby takes over, with all commits and without the last ones,
 * and a backup that pg_dump has made while they ran is restored into a new database.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { promisify } from "node:util";
import type { TestGateway } from "../../../../plugins/contracts/testing.ts";
import { storeCommand } from "../../../../src/commands/store.ts";
import { createSeal } from "../../../../src/store/seal.ts";
import { commandLine } from "../../../commands/command-line.ts";
import { temporaryFolder } from "../../../store/folder.ts";
import { type PostgresPair, startPostgresPair } from "../../../store/postgres-pair.ts";
import { startPostgres } from "../../../store/postgres-server.ts";
import { installedPostgres } from "../../../store/programs.ts";
import { runSql } from "../../../store/servers.ts";
import { until, upgrade } from "../shipping/fixture.ts";
import { call, charged, metric, secret, spend, startOn } from "./gateway-fixture.ts";

async function startPair(t: TestContext, synchronous: boolean): Promise<PostgresPair | undefined> {
  const programs = await installedPostgres();
  if (!existsSync(join(dirname(programs.postgres), "pg_basebackup"))) {
    if (process.env["CI"] === "true") throw new Error("CI needs pg_basebackup: see .ci/run");
    t.skip("needs pg_basebackup");
    return undefined;
  }
  const pair = await startPostgresPair(programs, { synchronous });
  t.after(() => pair[Symbol.asyncDispose]());
  await upgrade(pair.url, createSeal(secret));
  return pair;
}

const start = ({ url }: PostgresPair): Promise<TestGateway> => startOn(url);

/** The metric is missing until the store goes back for the first time. */
const wentBack = async (gateway: TestGateway): Promise<number> =>
  (await metric(gateway, "sluice_store_went_back_total")) || 0;

test("a failover to a synchronous standby loses and doubles nothing", async (t) => {
  const pair = await startPair(t, true);
  if (pair === undefined) return;
  await using one = await start(pair);
  await using two = await start(pair);
  const paid: string[] = [];
  let isOver = false;
  const callers = [one, two, one, two].map(async ({ url }, caller) => {
    for (let n = 0; !isOver; n++) {
      const id = `${caller}-${n}`;
      const headers = { authorization: `Bearer ${one.key}`, "x-request-id": id };
      const response = await fetch(`${url}/call`, { headers });
      await response.text();
      if (response.status === 200) paid.push(id);
      await wait(20);
    }
  });
  await until(() => Promise.resolve(paid.length >= 20));
  await pair.failOver();
  const before = paid.length;
  await until(() => Promise.resolve(paid.length >= Math.min(142, before + 20)));
  isOver = true;
  await Promise.all(callers);
  const rows = await runSql(pair.url, "SELECT request_id FROM sluice.charges");
  const charges = rows.map((row) => String(row["request_id"])).toSorted();
  assert.deepEqual(charges, paid.toSorted());
  assert.deepEqual([await wentBack(one), await wentBack(two)], [0, 0]);
  // The rest of the 142 calls is still there.
  const rest = await spend([one.url, two.url], one.key, 4);
  assert.equal((rest[200] ?? 0) + paid.length, 142);
  assert.deepEqual(await charged(pair.url), { charges: 142, used: 994, requests: 142 });
});

test("gateways send again what a failover to an asynchronous standby has lost", async (t) => {
  const pair = await startPair(t, false);
  if (pair === undefined) return;
  await using one = await start(pair);
  await using two = await start(pair);
  const callBoth = async (): Promise<void> => {
    for (const { url } of [one, two]) assert.equal(await call(url, one.key), 200);
  };
  for (let n = 0; n < 5; n++) await callBoth();
  await until(async () => (await replicated(pair)) === true);
  pair.replication.stalled = "down";
  for (let n = 0; n < 10; n++) await callBoth();
  assert.equal((await charged(pair.url))?.["charges"], 30);
  await pair.failOver();
  assert.equal((await charged(pair.url))?.["charges"], 10, "the failover lost commits");
  await until(async () => (await charged(pair.url))?.["charges"] === 30);
  assert.ok((await wentBack(one)) > 0 && (await wentBack(two)) > 0);
  const rest = await spend([one.url, two.url], one.key, 4);
  assert.equal(rest[200], 112);
  assert.deepEqual(await charged(pair.url), { charges: 142, used: 994, requests: 142 });
});

test("a gateway whose registration is lost registers again and charges again what is lost", async (t) => {
  const pair = await startPair(t, false);
  if (pair === undefined) return;
  await using one = await start(pair);
  assert.equal(await call(one.url, one.key), 200);
  await until(async () => (await replicated(pair)) === true);
  pair.replication.stalled = "down";
  await using two = await start(pair);
  for (let n = 0; n < 10; n++) assert.equal(await call(two.url, one.key), 200);
  assert.equal((await charged(pair.url))?.["charges"], 11);
  await pair.failOver();
  assert.equal((await charged(pair.url))?.["charges"], 1, "the failover lost commits");
  await until(async () => (await charged(pair.url))?.["charges"] === 11);
  const rest = await spend([one.url, two.url], one.key, 4);
  assert.equal(rest[200], 131);
  assert.deepEqual(await charged(pair.url), { charges: 142, used: 994, requests: 142 });
});

async function replicated({ primary }: PostgresPair): Promise<unknown> {
  const [row] = await runSql(
    primary.url,
    "SELECT replay_lsn >= pg_current_wal_lsn() AS has_all FROM pg_stat_replication",
  );
  return row?.["has_all"];
}

const run = promisify(execFile);

/** The limit of the key is 100 calls of 7 milli-CU. */
const limitMilliCu = 700;

const startNamed = (url: string, name: string): Promise<TestGateway> =>
  startOn(url, { REPLICA_NAME: name }, { cuLimit24hMilli: limitMilliCu });

/** The amounts that the key and its workspace have spent and that gateways hold, according to each table. */
const sums = `SELECT
  (SELECT coalesce(sum(milli_cu), 0)::int FROM sluice.used WHERE kind = 'day') AS day,
  (SELECT coalesce(sum(milli_cu), 0)::int FROM sluice.used WHERE kind = 'month') AS month,
  (SELECT coalesce(sum(milli_cu), 0)::int FROM sluice.used WHERE kind = 'period') AS drawn,
  (SELECT count(*)::int FROM sluice.leases) AS leases,
  (SELECT count(*)::int FROM sluice.replicas WHERE state = 'live') AS live`;

test("after a restore, the money adds up, and the rest of a limit can be spent to the last charge", async (t) => {
  const programs = await installedPostgres();
  const [dump, restore] = ["pg_dump", "pg_restore"].map((name) =>
    join(dirname(programs.postgres), name),
  ) as [string, string];
  if (!existsSync(dump) || !existsSync(restore)) {
    if (process.env["CI"] === "true") throw new Error("CI needs pg_dump: see .ci/run");
    t.skip("needs pg_dump (the Debian package postgresql-client)");
    return;
  }
  await using server = await startPostgres(programs);
  const file = join(temporaryFolder(t), "sluice.dump");
  await upgrade(server.url, createSeal(secret));
  let key = "";
  {
    await using one = await startNamed(server.url, "one");
    await using two = await startNamed(server.url, "two");
    ({ key } = one);
    for (let n = 0; n < 15; n++) {
      for (const { url } of [one, two]) assert.equal(await call(url, key), 200);
    }
    // The gateways run and hold credit while the backup is made.
    const dumping = ["--format=custom", "--schema=sluice", `--file=${file}`, server.url];
    await run(dump, dumping);
    for (const { url } of [one, two]) assert.equal(await call(url, key), 200);
  }
  await runSql(server.url, "CREATE DATABASE restored TEMPLATE template0");
  const restored = new URL(server.url);
  restored.pathname = "/restored";
  const url = restored.href;
  await run(restore, ["--single-transaction", `--dbname=${url}`, file]);
  const [before] = await runSql(url, sums);
  assert.deepEqual(await charged(url), { charges: 30, used: 210, requests: 30 });
  assert.equal(before?.["live"], 2);
  assert.ok(Number(before["leases"]) > 0);

  const { run: runCommand } = commandLine(t, "dev", { DATABASE_URL: url, GATEWAY_SECRET: secret });
  const store = await storeCommand();
  for (const name of ["upgrade", "recovered"]) {
    const { code, err } = await runCommand(store, name);
    assert.deepEqual([code, err], [0, []]);
  }
  assert.deepEqual(await runSql(url, sums), [
    { day: 210, month: 210, drawn: 210, leases: 0, live: 0 },
  ]);
  {
    await using three = await startNamed(url, "three");
    assert.deepEqual(await spend([three.url], key, 1), { 200: 70, 429: 1 });
  }
  const all = { charges: 100, used: limitMilliCu, requests: 100 };
  assert.deepEqual(await charged(url), all);
  assert.deepEqual(await runSql(url, sums), [
    { day: limitMilliCu, month: limitMilliCu, drawn: limitMilliCu, leases: 0, live: 0 },
  ]);
});
