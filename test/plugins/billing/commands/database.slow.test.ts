/** The commands of the accounts on a database, and `sluice store migrate`, which copies a data folder to one. */
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { type TestContext, test } from "node:test";
import { audit } from "../../../../plugins/billing/commands/audit.ts";
import { keys } from "../../../../plugins/billing/commands/keys.ts";
import { usage } from "../../../../plugins/billing/commands/usage.ts";
import { workspaces } from "../../../../plugins/billing/commands/workspaces.ts";
import { openStreamStore } from "../../../../plugins/confidential/confidential-relay/open-store.ts";
import { systemClock } from "../../../../src/base/clock.ts";
import { createMetrics } from "../../../../src/base/metrics.ts";
import { storeCommand } from "../../../../src/commands/store.ts";
import { startGateway } from "../../../../src/gateway/gateway.ts";
import type { Sql } from "../../../../src/plugin.ts";
import { openClaims } from "../../../../src/store/claims.ts";
import { lockStore } from "../../../../src/store/lock.ts";
import { createPluginEntries } from "../../../../src/store/plugin-storage.ts";
import { createSession } from "../../../../src/store/session.ts";
import { type CommandLine, commandLine } from "../../../commands/command-line.ts";
import { receiptOf } from "../../../contract/receipts.ts";
import { withFolderSql } from "../../../store/open-sql.ts";
import { createDatabase, runSql } from "../../../store/servers.ts";
import { silentLog } from "../../../test-log.ts";
import { openAccountsOn } from "../accounts/open-accounts.ts";

const store = await storeCommand();

const tables = `
    claims endings plugin_storage workspaces keys key_use model_overrides changes
    idempotency_slots receipts lost_answers`
  .trim()
  .split(/\s+/);

interface Setup {
  readonly url: string;
  readonly embedded: CommandLine;
  /** Commands that use the database; their data folder is the same. */
  readonly shared: CommandLine;
  readonly key: string;
}

async function setUp(t: TestContext): Promise<Setup> {
  const embedded = commandLine(t);
  const url = await createDatabase(t);
  const shared: CommandLine = embedded.with({ DATABASE_URL: url });
  const { id } = await embedded.json(workspaces, "create", "--name", "Ünïted", "--plan", "startup");
  const workspace = String(id);
  await embedded.json(workspaces, "purchase", workspace, "--cu", "9007199254740991");
  const made = await embedded.json(keys, "create", "--workspace", workspace, "--rps", "0.001");
  await embedded.json(keys, "rotate", String(made["id"]));
  await withFolderSql(embedded.data, (sql) => fill(sql, workspace, String(made["id"])));
  addKeysBetween(embedded.data, String(made["id"]));
  await withFolderSql(embedded.data, fillState);
  await shared.run(store, "upgrade");
  return { url, embedded, shared, key: String(made["key"]) };
}

async function fill(sql: Sql, workspaceId: string, keyId: string): Promise<void> {
  const { store: accounts, slots } = await openAccountsOn(sql);
  const by = { actor: "test", at: Date.now(), requestId: "r-1" };
  await accounts.saveUse([{ keyId, usedAt: 1_800_000_000_000 }]);
  await accounts.downgrade(workspaceId, { plan: "free", at: Date.now() + 60_000 }, by);
  const model = { id: "A/b-1", enabled: false, ownedBy: "a", priceCoefficient: 1_500 };
  await accounts.replaceOverrides("alpha", [model, { ...model, id: "c", ownedBy: undefined }], by);
  const request = { apiKeyId: keyId, fingerprint: "f".repeat(64) };
  await slots.take({ ...request, key: "gateway_1" }, "an owner that has ended");
  await slots.finish("an owner that has ended", {
    status: 200,
    contentType: "application/json",
    contentEncoding: "br",
    body: Buffer.from([0, 255, 10]),
  });
  await slots.take({ ...request, key: "gateway_2" }, "an owner");
}

/** Adds keys so that the last one replaces the first one: they are copied by different statements. */
function addKeysBetween(dataDir: string, first: string): void {
  const db = new DatabaseSync(join(dataDir, "state.db"));
  const insert =
    db.prepare(`INSERT INTO keys (id, workspace_id, name, hash, environment, capabilities, created_at)
    SELECT ?, workspace_id, 'more', ?, 'dev', capabilities, created_at FROM keys WHERE id = ?`);
  db.exec("BEGIN");
  const hash = (): string => `${randomUUID()}${randomUUID()}`.replaceAll("-", "");
  for (let n = 0; n < 1_500; n++) insert.run(`key_more_${n}`, hash(), first);
  db.prepare("UPDATE keys SET rotated_to = 'key_more_1499' WHERE id = ?").run(first);
  db.exec("COMMIT");
  db.close();
}

async function fillState(sql: Sql): Promise<void> {
  const claims = await openClaims(
    sql,
    createSession(sql.query, systemClock),
    systemClock,
    silentLog,
  );
  await claims.claim("once", Date.now() + 60_000);
  await claims.end("session", Date.now() + 60_000);
  claims.close();
  await createPluginEntries(sql).set("acme", "größe/1", Buffer.from([0, 255, 10]));
  const stream = openStreamStore({
    store: { sql: () => sql },
    clock: systemClock,
    log: silentLog,
    metrics: createMetrics(),
  });
  const { session, rid } = receiptOf(9_999_999_999);
  await stream.sessionIds.claim(session);
  await stream.receipts.keep(receiptOf(rid));
  const hello = { idempotencyKey: "once", network: "alpha", model: "M", maxOutputTokens: 9 };
  await stream.retryCredits.add({ keyId: "key_1", hello, requestBytes: 288 }, 20);
  await stream.close();
  await sql.query("UPDATE sluice.lost_answers SET used = 7");
}

test("every row of the data folder is copied once, and the folder is marked", async (t) => {
  const { url, embedded, shared, key } = await setUp(t);
  const before = {
    keys: await embedded.run(keys, "list"),
    workspaces: await embedded.run(workspaces, "list"),
    audit: await embedded.run(audit),
  };
  const { rows } = await shared.json(store, "migrate");
  assert.deepEqual(Object.keys(rows as object), tables);
  for (const count of Object.values(rows as object)) assert.ok(Number(count) > 0);

  assert.deepEqual(await shared.run(audit), before.audit);
  assert.deepEqual(await shared.run(workspaces, "list"), before.workspaces);
  const sorted = (run: { readonly out: readonly string[] }): string[] => run.out.toSorted();
  assert.deepEqual(sorted(await shared.run(keys, "list")), sorted(before.keys));
  const [slot] = await runSql(url, "SELECT body FROM sluice.idempotency_slots WHERE owner IS NULL");
  assert.deepEqual(slot, { body: Buffer.from([0, 255, 10]) });
  const used = await runSql(url, "SELECT used::int FROM sluice.lost_answers");
  assert.deepEqual(used, [{ used: 7 }]);

  // The numbers of changes continue.
  await shared.json(workspaces, "create", "--name", "Next", "--plan", "free");
  assert.equal((await shared.run(audit)).out.length, before.audit.out.length + 1);

  const again = await shared.run(store, "migrate");
  assert.equal(again.code, 1);
  assert.match(again.err.join("\n"), /SLUICE_STORE_NOT_EMPTY.*already has rows in sluice\.claims/);

  // The old accounts of the folder are refused, and those in the database are served.
  const refused = await embedded.run(keys, "list");
  assert.match(refused.err.join("\n"), /SLUICE_STORE_MOVED/);
  const { configFile, data } = embedded;
  const env = { GATEWAY_ENV: "dev", LOG_LEVEL: "silent", PORT: "0", ADMIN_PORT: "0" };
  await assert.rejects(startGateway({ configFile, env, watch: false }), /SLUICE_STORE_MOVED/);
  rmSync(join(data, "state.db"));
  const shown = { configFile, env: { ...env, DATABASE_URL: url }, watch: false };
  const gateway = await startGateway({ ...shown, drainDelaySeconds: 0 });
  const found = await gateway.use("accounts")?.identify(`Bearer ${key}`);
  await gateway.stop();
  assert.equal(found?.kind, "key");
});

test("--check finds rows that differ, are missing, or are too many", async (t) => {
  const { url, embedded, shared } = await setUp(t);
  await shared.json(store, "migrate");
  const same = await shared.run(store, "migrate", "--check");
  assert.deepEqual([same.code, same.err], [0, []]);
  const differs = async (change: string, undo: string): Promise<void> => {
    await runSql(url, change);
    const { code, err } = await shared.run(store, "migrate", "--check");
    assert.equal(code, 1, change);
    assert.match(err.join("\n"), /SLUICE_STORE_DIFFERS/, change);
    await runSql(url, undo);
  };
  await differs(
    "UPDATE sluice.workspaces SET overage_limit_cu_milli = 1",
    "UPDATE sluice.workspaces SET overage_limit_cu_milli = NULL",
  );
  await differs(
    "DELETE FROM sluice.key_use",
    "INSERT INTO sluice.key_use SELECT id, 1800000000000 FROM sluice.keys WHERE rotated_to IS NOT NULL",
  );
  await differs(
    "INSERT INTO sluice.claims VALUES ('more', 1)",
    "DELETE FROM sluice.claims WHERE id = 'more'",
  );
  assert.equal((await shared.run(store, "migrate", "--check")).code, 0);
  assert.match((await embedded.run(keys, "list")).err.join("\n"), /SLUICE_STORE_MOVED/);
});

test("a failed copy leaves the database empty and the folder in use", async (t) => {
  const { url, embedded, shared } = await setUp(t);
  await runSql(url, "ALTER TABLE sluice.idempotency_slots ADD CHECK (status <> 200)");
  const failed = await shared.run(store, "migrate");
  assert.match(failed.err.join("\n"), /SLUICE_STORE_FAILED/);
  const [{ count } = {}] = await runSql(url, "SELECT count(*)::int AS count FROM sluice.keys");
  assert.equal(count, 0);
  assert.equal((await embedded.run(keys, "list")).code, 0);
});

test("a folder that a gateway uses is not moved", async (t) => {
  const { embedded, shared } = await setUp(t);
  using _gateway = lockStore(embedded.data);
  const { code, err } = await shared.run(store, "migrate");
  assert.equal(code, 1);
  assert.match(err.join("\n"), /SLUICE_STORE_IN_USE/);
});

test("purchased credit that gateways have drawn in PostgreSQL is shown as used, and the export reads PostgreSQL", async (t) => {
  const url = await createDatabase(t);
  const { run, json } = commandLine(t, "dev", { DATABASE_URL: url });
  await run(store, "upgrade");
  const { id } = await json(workspaces, "create", "--name", "Acme", "--plan", "free");
  const workspace = String(id);
  await json(workspaces, "purchase", workspace, "--cu", "70");
  await runSql(
    url,
    `INSERT INTO sluice.used VALUES
     ('${workspace}', 'period', 0, 1, 25), ('${workspace}', 'period', 0, 2, 7)`,
    `INSERT INTO sluice.scopes (id, fixed) VALUES ('${workspace}',
     '[{"start": 0, "includedMilliCu": 5, "purchasedMilliCu": 27, "overageMilliCu": 0}]')`,
  );
  assert.equal((await json(workspaces, "show", workspace))["purchased_cu_milli"], 43);
  const listed = await run(workspaces, "list");
  assert.match(listed.out.join("\n"), /Acme +free +- +43/);
  // No charges were posted with these sums.
  const exported = await run(usage, "export");
  assert.deepEqual([exported.code, exported.out], [0, []]);
  const wrong = run(usage, "export", "--after", "chg_ab_1_0");
  await assert.rejects(wrong, /--after: expected a position/);
});

test("an export up to a time is continued with the charges after it, of gateways that have ended, too", async (t) => {
  const url = await createDatabase(t);
  const { run } = commandLine(t, "dev", { DATABASE_URL: url });
  await run(store, "upgrade");
  const names = ["both", "before", "after"];
  await runSql(
    url,
    ...names.map(
      (
        name,
      ) => `INSERT INTO sluice.replicas (journal, name, version, mode, state, registered_at, heard_at)
        VALUES ('${name}', '${name}', '', 'settled', 'live', 0, 0)`,
    ),
  );
  const post = (replica: number, times: readonly string[], first = 1): Promise<unknown> => {
    const about = { workspace_id: "ws_1", key_id: "key_1", surface: "s", method: "m" };
    const sums = { used_cu_milli: 1, input_tokens: 0, output_tokens: 0 };
    const end = { request_id: "r", estimated: false, outcome: "complete" };
    const rows = times.map((time, n) => ({ ...about, ...sums, ...end, time, seq: first + n }));
    const last = first + times.length - 1;
    return runSql(
      url,
      `SELECT sluice.credit_post(${replica}, ${first}, ${last}, '${JSON.stringify(rows)}')`,
    );
  };
  await post(1, ["2026-11-30T23:59:59.999Z", "2026-12-01T00:00:00Z", "2026-12-01T00:00:01Z"]);
  await post(2, ["2026-11-30T10:00:00Z"]);
  await post(3, ["2026-12-02T10:00:00Z"]);
  await runSql(url, "UPDATE sluice.replicas SET state = 'gone' WHERE id > 1");
  const exported = async (...argv: string[]): Promise<{ ids: string[]; position: string }> => {
    const { out, err } = await run(usage, "export", ...argv);
    const ids = out.map((line) => String((JSON.parse(line) as Record<string, unknown>)["id"]));
    return { ids, position: err.join("\n").split("--after ")[1] ?? "" };
  };
  const november = await exported("--to", "2026-12-01");
  assert.deepEqual(november.ids, ["chg_both_0_1", "chg_before_0_1"]);
  await post(1, ["2026-12-03T00:00:00Z"], 4);
  const december = await exported("--after", november.position);
  const rest = ["chg_both_0_2", "chg_both_0_3", "chg_both_0_4", "chg_after_0_1"];
  assert.deepEqual(december.ids, rest);
  // An export up to an earlier time does not move the position back.
  const again = await exported("--after", december.position, "--to", "2026-12-01");
  assert.deepEqual(again, { ids: [], position: december.position });
});

test("the commands need tables, and the secret of the deployment", async (t) => {
  const url = await createDatabase(t);
  const { run } = commandLine(t, "dev", { DATABASE_URL: url });
  const early = await run(workspaces, "list");
  assert.equal(early.code, 1);
  assert.match(early.err.join("\n"), /:4:\d+ +SLUICE_STORE_OLDER.*has no tables of Sluice/);
  await run(store, "upgrade");
  const env = { DATABASE_URL: url, GATEWAY_SECRET: "another-secret-of-a-deployment" };
  const other = commandLine(t, "dev", env);
  const { code, err } = await other.run(keys, "list");
  assert.equal(code, 1);
  assert.match(err.join("\n"), /SLUICE_STORE_SECRET/);
});
