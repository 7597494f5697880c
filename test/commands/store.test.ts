/** `sluice store` on a real PostgreSQL, and without one. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client } from "pg";
import { storeCommand } from "../../src/commands/store.ts";
import { shippedMigrations } from "../../src/pipeline/load/migrations.ts";
import { upgradeLock } from "../../src/store/postgres/migrations.ts";
import { createDatabase, runSql } from "../store/servers.ts";
import { commandLine } from "./command-line.ts";

const store = await storeCommand();

const registered = (name: string): string =>
  `INSERT INTO sluice.replicas (name, version, mode, state, registered_at, heard_at)
   VALUES ('${name}', '1.2.3', 'settled', 'live', sluice.now_ms(), sluice.now_ms())`;

test("upgrade creates the tables once, and status shows the gateways", async (t) => {
  const url = await createDatabase(t);
  const { run, json } = commandLine(t, "dev", { DATABASE_URL: url });
  const { length: newest } = await shippedMigrations();
  const early = await run(store, "status");
  assert.equal(early.code, 1);
  assert.match(early.err.join("\n"), /SLUICE_STORE_OLDER.*has no tables of Sluice/);
  assert.deepEqual(await run(store, "upgrade"), {
    code: 0,
    out: [`upgraded the tables from schema version 0 to ${newest}`],
    err: [],
  });
  assert.deepEqual(await json(store, "upgrade", "--json"), { before: newest, after: newest });
  await runSql(url, registered("gateway-a"));
  const { out } = await run(store, "status");
  assert.equal(out[0], `schema version ${newest}`);
  assert.match(out[2] ?? "", /^gateway-a +settled +live +\d/);
  const { replicas } = await json(store, "status", "--json");
  assert.equal((replicas as { posted: number }[])[0]?.posted, 0);
});

test("forget ends a gateway and frees its credit, and recovered ends all", async (t) => {
  const url = await createDatabase(t);
  const { run, json } = commandLine(t, "dev", { DATABASE_URL: url });
  await run(store, "upgrade");
  await runSql(
    url,
    registered("one"),
    registered("two"),
    "INSERT INTO sluice.scopes (id, limits) VALUES ('ws', '{}')",
    "INSERT INTO sluice.leases (scope, replica, granted, spent) VALUES ('ws', 1, 40, 0)",
  );
  const { replicas } = await json(store, "status", "--json");
  const held = (replicas as { name: string; held_cu_milli: number }[]).map((each) => [
    each.name,
    each.held_cu_milli,
  ]);
  assert.deepEqual(Object.fromEntries(held), { one: 40, two: 0 });
  assert.deepEqual(await json(store, "forget", "one", "--json"), {
    ended: [{ name: "one", freed_cu_milli: 40 }],
  });
  assert.deepEqual(await runSql(url, "SELECT * FROM sluice.leases"), []);
  assert.deepEqual(await json(store, "recovered", "--json"), {
    ended: [{ name: "two", freed_cu_milli: 0 }],
  });
  const { code, err } = await run(store, "forget", "three");
  assert.equal(code, 1);
  assert.deepEqual(err, ['no gateway with the name "three" is live']);
  // After a restore, the command must also succeed if all gateways had stopped before the backup.
  const again = await run(store, "recovered");
  assert.deepEqual([again.code, again.err], [0, ["no gateway was live"]]);
});

test("an upgrade may take longer than the statements of other commands", async (t) => {
  const url = await createDatabase(t);
  const { run } = commandLine(t, "dev", { DATABASE_URL: url });
  const other = new Client({ connectionString: url });
  await other.connect();
  await other.query(`SELECT pg_advisory_lock(${upgradeLock})`);
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const running = run(store, "upgrade");
  const waiting = `SELECT 1 FROM pg_locks JOIN pg_database d ON d.oid = database
    WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()`;
  while ((await runSql(url, waiting)).length === 0);
  t.mock.timers.tick(3_600_000);
  await other.end();
  const { code, err } = await running;
  assert.deepEqual([code, err], [0, []]);
});

test("without store.postgres the command reports that it is missing", async (t) => {
  const { run } = commandLine(t);
  assert.deepEqual(await run(store, "status"), {
    code: 1,
    out: [],
    err: ["store.postgres (DATABASE_URL) is not set: there is no database to use"],
  });
});

test("a database that cannot be reached is a fault without its password", async (t) => {
  const { run } = commandLine(t, "dev", {
    DATABASE_URL: "postgres://sluice:hunter2@127.0.0.1:9/sluice",
  });
  const { code, err } = await run(store, "upgrade");
  assert.equal(code, 1);
  assert.match(err.join("\n"), /:4:\d+ +SLUICE_STORE_UNREACHABLE.*127\.0\.0\.1:9\/sluice/);
  assert.doesNotMatch(err.join("\n"), /hunter2/);
});
