/** A backup of the database with pg_dump while gateways spend credit, and its restore into a new database. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { startTestGateway, type TestGateway } from "../../../../plugins/contracts/testing.ts";
import { storeCommand } from "../../../../src/commands/store.ts";
import { createSeal } from "../../../../src/store/seal.ts";
import { commandLine } from "../../../commands/command-line.ts";
import { startPostgres } from "../../../store/postgres-server.ts";
import { installedPostgres } from "../../../store/programs.ts";
import { runSql } from "../../../store/servers.ts";
import { temporaryFolder } from "../../../store/folder.ts";
import { upgrade } from "../shipping/fixture.ts";
import { call, charged, pipeline, secret, spend } from "./gateway-fixture.ts";

const run = promisify(execFile);

/** The limit of the key is 100 calls of 7 milli-CU. */
const limitMilliCu = 700;

function start(url: string, name: string): Promise<TestGateway> {
  return startTestGateway({
    pipeline,
    env: { DATABASE_URL: url, REPLICA_NAME: name },
    account: { plan: "free", cuLimit24hMilli: limitMilliCu },
  });
}

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
    await using one = await start(server.url, "one");
    await using two = await start(server.url, "two");
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
    await using three = await start(url, "three");
    assert.deepEqual(await spend([three.url], key, 1), { 200: 70, 429: 1 });
  }
  const all = { charges: 100, used: limitMilliCu, requests: 100 };
  assert.deepEqual(await charged(url), all);
  assert.deepEqual(await runSql(url, sums), [
    { day: limitMilliCu, month: limitMilliCu, drawn: limitMilliCu, leases: 0, live: 0 },
  ]);
});
