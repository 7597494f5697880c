/** A standby takes over while gateways share credit: with all commits, and without the last ones. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { test, type TestContext } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { startTestGateway, type TestGateway } from "../../../../plugins/contracts/testing.ts";
import { createSeal } from "../../../../src/store/seal.ts";
import { startPostgresPair, type PostgresPair } from "../../../store/postgres-pair.ts";
import { installedPostgres } from "../../../store/programs.ts";
import { runSql } from "../../../store/servers.ts";
import { until, upgrade } from "../shipping/fixture.ts";
import { call, charged, pipeline, spend } from "./gateway-fixture.ts";

async function startPair(t: TestContext, synchronous: boolean): Promise<PostgresPair | undefined> {
  const programs = await installedPostgres();
  if (!existsSync(join(dirname(programs.postgres), "pg_basebackup"))) {
    if (process.env["CI"] === "true") throw new Error("CI needs pg_basebackup: see .ci/run");
    t.skip("needs pg_basebackup");
    return undefined;
  }
  const pair = await startPostgresPair(programs, { synchronous });
  t.after(() => pair[Symbol.asyncDispose]());
  await upgrade(pair.url, createSeal("a secret of these gateways"));
  return pair;
}

function start(pair: PostgresPair): Promise<TestGateway> {
  return startTestGateway({
    pipeline,
    env: { DATABASE_URL: pair.url },
    account: { plan: "free", capabilities: ["workspace:admin"] },
  });
}

async function wentBack({ adminUrl }: TestGateway): Promise<number> {
  const metrics = await (await fetch(`${adminUrl}/metrics`)).text();
  return Number(/^sluice_store_went_back_total (\d+)$/m.exec(metrics)?.[1] ?? 0);
}

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
