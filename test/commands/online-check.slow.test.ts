/** `sluice check --online`, on real databases. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { Client } from "pg";
import { check } from "../../src/commands/check.ts";
import { onlineFaults } from "../../src/commands/online-check.ts";
import { readPipeline } from "../../src/pipeline/load/check-file.ts";
import { sharedSettings } from "../../src/pipeline/load/shared-settings.ts";
import { createSeal } from "../../src/store/seal.ts";
import { upgrade } from "../plugins/billing/shipping/fixture.ts";
import { startRedis } from "../store/redis-server.ts";
import { createDatabase, runSql } from "../store/servers.ts";
import { commandLine, type CommandLine } from "./command-line.ts";

const secret = "a secret of the online check";

async function prepared(
  t: TestContext,
): Promise<{ readonly url: string; readonly line: CommandLine }> {
  const url = await createDatabase(t);
  return { url, line: commandLine(t, "dev", { DATABASE_URL: url, GATEWAY_SECRET: secret }) };
}

async function online({ run }: CommandLine): Promise<string> {
  const { code, out } = await run(check, "--online");
  const text = out.join("\n");
  assert.equal(code, /SLUICE_/.test(text) ? 1 : 0, text);
  return text;
}

test("--online reports tables that are missing, and a database that cannot be reached", async (t) => {
  const { url, line } = await prepared(t);
  assert.match(await online(line), /SLUICE_STORE_OLDER.*no tables of Sluice/);
  await upgrade(url, createSeal(secret));
  assert.match(await online(line), /has no faults/);
  assert.match(await online(line.with({ GATEWAY_SECRET: `${secret}!` })), /SLUICE_STORE_SECRET/);
  const away = new URL(url);
  away.port = "1";
  const unreachable = line.with({ DATABASE_URL: away.href });
  assert.match(await online(unreachable), /SLUICE_STORE_UNREACHABLE/);
  assert.equal((await unreachable.run(check)).code, 0, "without --online, nothing is connected");
  assert.match(await online(line.with({ DATABASE_URL: "" })), /has no faults/);
});

test("--online reports a Redis that does not answer, also if only the password is wrong", async (t) => {
  const redis = await startRedis(t, ["--requirepass", "a password"]);
  if (redis === undefined) return;
  const { url, line } = await prepared(t);
  await upgrade(url, createSeal(secret));
  const withPassword = (password: string): CommandLine =>
    line.with({ REDIS_URL: redis.url.replace("//", `//:${encodeURIComponent(password)}@`) });
  assert.match(await online(withPassword("a password")), /has no faults/);
  const refused = await online(withPassword("hunter2"));
  assert.match(refused, /SLUICE_STORE_UNREACHABLE {2}Redis at 127\.0\.0\.1:\d+ .*\(WRONGPASS/);
  assert.doesNotMatch(refused, /hunter2/);
  assert.match(
    await online(line.with({ REDIS_URL: "redis://127.0.0.1:1" })),
    /SLUICE_STORE_UNREACHABLE {2}Redis at 127\.0\.0\.1:1 .*ECONNREFUSED/,
  );
});

test("--online reports a database that can lose commits", async (t) => {
  const { url, line } = await prepared(t);
  await upgrade(url, createSeal(secret));
  // To the server, it is a standby that has just connected.
  const options = { connectionString: url, replication: "true" };
  const standby = new Client(options);
  await standby.connect();
  try {
    assert.match(
      await online(line),
      /SLUICE_STORE_LOSSY.*it has \d+ standbys?, and synchronous_standby_names is empty/,
    );
  } finally {
    await standby.end();
  }
  await runSql(
    url,
    `ALTER DATABASE "${new URL(url).pathname.slice(1)}" SET synchronous_commit = off`,
  );
  assert.match(await online(line), /SLUICE_STORE_LOSSY.*synchronous_commit is off/);
});

test("--online reports gateways that run with other settings", async (t) => {
  const { url, line } = await prepared(t);
  await upgrade(url, createSeal(secret));
  const env = { GATEWAY_ENV: "dev", DATABASE_URL: url, GATEWAY_SECRET: secret };
  const { config } = await readPipeline(line.configFile, env);
  assert.ok(config !== undefined);
  const own = JSON.stringify(await sharedSettings(config));
  const other = JSON.stringify({ ...JSON.parse(own), plans: "other" });
  await runSql(
    url,
    `INSERT INTO sluice.gateways VALUES
      ('a', 'one', '1', sluice.now_ms() + 60000, '${own}'),
      ('b', 'two', '1', sluice.now_ms() + 60000, '${other}')`,
  );
  assert.match(
    await online(line),
    /SLUICE_STORE_SETTINGS.*a gateway has other settings than this file in plans: "two"/,
  );
});

test("--online reports a clock that differs from the database's", async (t) => {
  const { url, line } = await prepared(t);
  await upgrade(url, createSeal(secret));
  const env = { GATEWAY_ENV: "dev", DATABASE_URL: url, GATEWAY_SECRET: secret };
  const { config } = await readPipeline(line.configFile, env);
  assert.ok(config !== undefined);
  const faultsAt = async (offsetMs: number): Promise<readonly string[]> => {
    const faults = await onlineFaults(config, { now: () => Date.now() + offsetMs });
    return faults.map(({ code, message }) => `${code} ${message}`);
  };
  assert.deepEqual(await faultsAt(500), []);
  const [ahead = "", ...more] = await faultsAt(3_600_000);
  assert.deepEqual(more, []);
  assert.match(
    ahead,
    /SLUICE_STORE_CLOCK the clock of this host is 3(600|599)\.\d s ahead of that/,
  );
  assert.match((await faultsAt(-60_000))[0] ?? "", /(60|59)\.\d s behind that of PostgreSQL/);
});
