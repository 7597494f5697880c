/** Tests of SQLite files: their schema and failures, and files of earlier releases that state.db takes over. */
import assert from "node:assert/strict";
import {
  cpSync,
  readFileSync,
  statSync,
  writeFileSync,
  chmodSync,
  chownSync,
  readdirSync,
} from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { gunzipSync } from "node:zlib";
import { test, type TestContext } from "node:test";
import { openStreamStore } from "../../../plugins/confidential/confidential-relay/open-store.ts";
import { createHistoryStore } from "../../../plugins/dashboard/dashboard/history/store.ts";
import { systemClock } from "../../../src/base/clock.ts";
import { createMetrics } from "../../../src/base/metrics.ts";
import { shippedTables } from "../../../src/pipeline/load/databases.ts";
import { openClaims } from "../../../src/store/claims.ts";
import { createPluginEntries } from "../../../src/store/plugin-storage.ts";
import { openDatabase, transaction } from "../../../src/store/sqlite.ts";
import { openStateFile, stateFileOf } from "../../../src/store/sql/state-file.ts";
import type { Tables } from "../../../src/store/sql/tables.ts";
import { StoreError, explain, isBusy } from "../../../src/store/store-error.ts";
import { damage } from "../damage.ts";
import { temporaryFolder } from "../folder.ts";
import { openFolderSql } from "../open-sql.ts";
import { startModule, sourceUrl, runModule } from "../run-module.ts";
import { embeddedFolder } from "../../fixtures/billing/fixtures.ts";
import { receiptOf } from "../../contract/receipts.ts";
import { silentLog } from "../../test-log.ts";
import { createSession } from "../../../src/store/session.ts";

/** The files that the release before state.db wrote. */
const earlier = join(import.meta.dirname, "old-folder");
const tables = await shippedTables();
const session = "A".repeat(22);

function oldFolder(t: TestContext): string {
  const folder = temporaryFolder(t);
  cpSync(earlier, folder, { recursive: true });
  writeAccounts(folder);
  return folder;
}

/** Writes the accounts of the fixtures, part of which are in the log of a gateway that was killed. */
function writeAccounts(folder: string): void {
  for (const name of ["accounts.db", "accounts.db-wal"]) {
    writeFileSync(join(folder, name), gunzipSync(readFileSync(join(embeddedFolder, `${name}.gz`))));
  }
}

function rejectsWith(code: string, file: string): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof StoreError, String(error));
    assert.equal(error.code, code, error.message);
    assert.ok(error.message.includes(file), error.message);
    assert.notEqual(error.remedy, "");
    return true;
  };
}

test("what an earlier release wrote is there after the first start, and after the second", async (t) => {
  const folder = oldFolder(t);
  for (let start = 0; start < 2; start++) {
    const sql = await openFolderSql(t, folder);
    const claims = await openClaims(
      sql,
      createSession(sql.query, systemClock),
      systemClock,
      silentLog,
    );
    assert.equal(await claims.claim("used token", Date.UTC(2100, 0, 1)), false);
    assert.equal(claims.hasEnded("ended session"), true);
    claims.close();
    const entries = createPluginEntries(sql);
    assert.deepEqual(
      await entries.list("acme", ""),
      start === 0 ? ["größe/1", "größe/2"] : ["größe/1"],
    );
    assert.deepEqual(await entries.get("acme", "größe/1"), Buffer.from([0, 255, 10]));
    const metrics = createMetrics();
    const store = { sql: () => sql };
    const stream = openStreamStore({ store, clock: systemClock, log: silentLog, metrics });
    // JSON omits undefined members.
    const { unverifiedReason: _, ...stored } = receiptOf(9_999_999_999);
    assert.deepEqual(await stream.receipts.find(session, 9_999_999_999), stored);
    assert.equal(await stream.sessionIds.claim(session), false);
    await stream.close();
    const all = { from: 0, to: Date.UTC(2100, 0, 1) };
    const history = createHistoryStore(sql);
    const [hour] = await history.read({ ...all, span: "hour", kind: "all" });
    assert.deepEqual([hour?.at, hour?.sum], [Date.UTC(2026, 10, 26), '{"n":1}']);
    assert.equal((await history.read({ ...all, span: "minute", kind: "route" })).length, 1);
    // Deleted rows do not come back.
    await entries.delete("acme", "größe/2");
    await sql.close();
  }
});

test("the earlier release refuses a folder whose files have been taken over", async (t) => {
  const folder = oldFolder(t);
  await (await openFolderSql(t, folder)).close();
  for (const { file, version = 1 } of tables.takeovers) {
    const scripts = Array.from({ length: version }, () => "SELECT 1");
    const open = (): unknown => openDatabase(join(folder, file), scripts);
    assert.throws(open, rejectsWith("SLUICE_STORE_NEWER", file));
    assert.ok(statSync(join(folder, file)).size <= 4_096, "the file is empty");
  }
});

test("a file that a newer release has taken over is refused", async (t) => {
  const folder = oldFolder(t);
  const db = new DatabaseSync(join(folder, "storage.db"));
  db.exec("PRAGMA user_version = 3");
  db.close();
  await assert.rejects(openFolderSql(t, folder), rejectsWith("SLUICE_STORE_NEWER", "storage.db"));
});

test("a file of a release before the earlier one is refused and not changed", async (t) => {
  const folder = oldFolder(t);
  const db = new DatabaseSync(join(folder, "accounts.db"));
  db.exec("PRAGMA user_version = 3");
  await assert.rejects(openFolderSql(t, folder), rejectsWith("SLUICE_STORE_OLDER", "accounts.db"));
  assert.ok(Number(db.prepare("SELECT count(*) AS n FROM keys").get()?.["n"]) > 0);
  db.close();
});

test("accounts whose takeover was interrupted before the earlier file was empty are taken over again, once", async (t) => {
  const folder = oldFolder(t);
  const names = tables.moved.map(({ name }) => name);
  const rows = async (): Promise<unknown> => {
    const sql = await openFolderSql(t, folder);
    const all = await Promise.all(names.map((name) => sql.query(`SELECT * FROM sluice.${name}`)));
    await sql.close();
    return all;
  };
  const first = await rows();
  assert.ok(JSON.stringify(first).includes("workspace.create"), "the accounts have rows");
  writeAccounts(folder);
  assert.deepEqual(await rows(), first);
  assert.ok(statSync(join(folder, "accounts.db")).size <= 4_096);
});

test("a damaged file of an earlier release is named, and its rows are taken over when it has been restored", async (t) => {
  const folder = oldFolder(t);
  damage(join(folder, "storage.db"), 1);
  const refused = rejectsWith("SLUICE_STORE_CORRUPT", "storage.db");
  await assert.rejects(openFolderSql(t, folder), refused);
  cpSync(join(earlier, "storage.db"), join(folder, "storage.db"));
  const entries = createPluginEntries(await openFolderSql(t, folder));
  assert.equal((await entries.list("acme", "")).length, 2);
});

test("a takeover that is killed starts again, and loses nothing", async (t) => {
  const folder = oldFolder(t);
  const rows = 20_000;
  const old = new DatabaseSync(join(folder, "receipts.db"));
  old.exec(`WITH RECURSIVE one (n) AS (SELECT 10 UNION ALL SELECT n + 1 FROM one WHERE n < ${rows + 9})
    INSERT INTO receipts SELECT 's' || n, n, n, '{}' FROM one`);
  old.close();
  const count = (): number => {
    const db = new DatabaseSync(join(folder, "state.db"));
    const found = Number(db.prepare("SELECT count(*) AS n FROM receipts").get()?.["n"]);
    db.close();
    return found;
  };
  let killed = 0;
  // Each start is killed a little later, until one of them ends by itself.
  for (let bytes = 0; ; bytes += 400_000) {
    const child = startModule(`
      const { withFolderSql } = await import(${JSON.stringify(sourceUrl("test/store/open-sql.ts"))});
      await withFolderSql(${JSON.stringify(folder)}, async () => {});`);
    const ended = new Promise((resolve) => child.once("close", resolve));
    const wal = join(folder, "state.db-wal");
    const written = (): number => statSync(wal, { throwIfNoEntry: false })?.size ?? -1;
    while (child.exitCode === null && written() < bytes) await new Promise(setImmediate);
    child.kill("SIGKILL");
    await ended;
    if (child.signalCode === null) break;
    killed++;
  }
  assert.ok(killed > 0, "no start was killed");
  assert.equal(count(), rows + 2);
  assert.ok(statSync(join(folder, "receipts.db")).size <= 4_096);
});

const later: Tables = {
  ...tables,
  scripts: [...tables.scripts, { name: "later", sql: "CREATE TABLE sluice.later (a bigint)" }],
};

test("a file of a newer release is refused and not touched, and a later release adds its tables", async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, "state.db");
  await (await openFolderSql(t, folder)).close();
  const db = openStateFile(stateFileOf(folder, later));
  assert.equal(db.prepare("PRAGMA user_version").get()?.["user_version"], later.scripts.length);
  db.exec("INSERT INTO later VALUES (1)");
  db.close();
  const before = readFileSync(file);
  await assert.rejects(openFolderSql(t, folder), rejectsWith("SLUICE_STORE_NEWER", "state.db"));
  assert.deepEqual(readFileSync(file), before);
});

const schema = ["CREATE TABLE t (a INTEGER NOT NULL) STRICT"];
const pragma = (db: DatabaseSync, name: string): unknown =>
  Object.values(db.prepare(`PRAGMA ${name}`).get() ?? {})[0];
const storeError = (code: string) => (error: unknown) => {
  assert.ok(error instanceof StoreError, String(error));
  assert.equal(error.code, code);
  assert.notEqual(error.remedy, "");
  return true;
};

test("creates a private folder with private files", (t) => {
  const folder = join(temporaryFolder(t), "data");
  using db = openDatabase(join(folder, "a.db"), schema);
  db.exec("INSERT INTO t VALUES (1)");
  assert.equal(statSync(folder).mode & 0o777, 0o700);
  assert.deepEqual(readdirSync(folder).toSorted(), ["a.db", "a.db-shm", "a.db-wal"]);
  for (const file of readdirSync(folder)) {
    assert.equal(statSync(join(folder, file)).mode & 0o777, 0o600, file);
  }
});

test("uses WAL, syncs every commit and enforces foreign keys", (t) => {
  using db = openDatabase(join(temporaryFolder(t), "a.db"), schema);
  assert.equal(pragma(db, "journal_mode"), "wal");
  assert.equal(pragma(db, "synchronous"), 2);
  assert.equal(pragma(db, "foreign_keys"), 1);
  assert.equal(pragma(db, "busy_timeout"), 5_000);
});

test("runs only the missing migrations and keeps the data", (t) => {
  const file = join(temporaryFolder(t), "a.db");
  using before = openDatabase(file, schema);
  before.exec("INSERT INTO t VALUES (7)");
  before.close();
  using db = openDatabase(file, [...schema, "ALTER TABLE t ADD COLUMN b TEXT"]);
  assert.equal(pragma(db, "user_version"), 2);
  assert.deepEqual({ ...db.prepare("SELECT * FROM t").get() }, { a: 7, b: null });
});

test("a migration that fails leaves the schema as it was", (t) => {
  const file = join(temporaryFolder(t), "a.db");
  openDatabase(file, schema).close();
  const broken = [...schema, "CREATE TABLE u (a INTEGER) STRICT", "CREATE TABLE nonsense ("];
  assert.throws(() => openDatabase(file, broken), storeError("SLUICE_STORE_FAILED"));
  using db = openDatabase(file, schema);
  assert.equal(pragma(db, "user_version"), 1);
  assert.equal(db.prepare("SELECT * FROM sqlite_schema WHERE name = 'u'").get(), undefined);
});

test("refuses a file that a newer release wrote", (t) => {
  const file = join(temporaryFolder(t), "a.db");
  openDatabase(file, [...schema, "SELECT 1"]).close();
  assert.throws(() => openDatabase(file, schema), storeError("SLUICE_STORE_NEWER"));
});

test("refuses a file that is not a database and does not change it", (t) => {
  const file = join(temporaryFolder(t), "a.db");
  writeFileSync(file, "this was never a database ".repeat(100));
  const size = statSync(file).size;
  assert.throws(() => openDatabase(file, schema), storeError("SLUICE_STORE_CORRUPT"));
  assert.equal(statSync(file).size, size);
});

test("refuses a folder that is not writable, new or existing", (t) => {
  const folder = temporaryFolder(t);
  openDatabase(join(folder, "old.db"), schema).close();
  chmodSync(join(folder, "old.db"), 0o444);
  chmodSync(folder, 0o555);
  asOrdinaryUser(folder, () => {
    for (const path of ["new.db", "old.db", "deeper/new.db"]) {
      const file = join(folder, path);
      assert.throws(() => openDatabase(file, schema), storeError("SLUICE_STORE_UNWRITABLE"), path);
    }
  });
  chmodSync(folder, 0o700);
});

test("several processes can create the same file at once", async (t) => {
  const file = join(temporaryFolder(t), "data", "a.db");
  const code = `
      const { openDatabase } = await import(${JSON.stringify(sourceUrl("src/store/sqlite.ts"))});
      const db = openDatabase(${JSON.stringify(file)}, ${JSON.stringify(schema)});
      db.exec("INSERT INTO t VALUES (1)");
      db.close();`;
  const runs = await Promise.all(Array.from({ length: 4 }, () => runModule(code)));
  assert.deepEqual(
    runs,
    runs.map(() => ({ status: 0, out: "", err: "" })),
  );
  using db = openDatabase(file, schema);
  assert.equal(db.prepare("SELECT count(*) AS n FROM t").get()?.["n"], 4);
});

const count = (db: DatabaseSync): unknown => db.prepare("SELECT count(*) AS n FROM t").get()?.["n"];

test("a full disk rolls back and is reported as such", (t) => {
  const file = join(temporaryFolder(t), "a.db");
  using db = openDatabase(file, ["CREATE TABLE t (a TEXT) STRICT"]);
  db.exec("PRAGMA max_page_count = 3");
  const fill = (): void =>
    transaction(db, () => {
      db.prepare("INSERT INTO t VALUES (?)").run("x".repeat(100_000));
    });
  assert.throws(fill, (error) => storeError("SLUICE_STORE_FULL")(explain(error, file)));
  assert.equal(db.isTransaction, false);
  assert.equal(count(db), 0);
});

test("a lock that is not released is reported differently from other failures", (t) => {
  const file = join(temporaryFolder(t), "a.db");
  using holder = openDatabase(file, schema);
  using db = new DatabaseSync(file, { timeout: 0 });
  holder.exec("BEGIN IMMEDIATE");
  const write = (): void => transaction(db, () => undefined);
  assert.throws(
    write,
    (error) => isBusy(error) && storeError("SLUICE_STORE_BUSY")(explain(error, file)),
  );
  assert.equal(isBusy(new Error("other")), false);
});

/** Permissions do not apply to root, so a test that runs as root changes its user for a moment. */
function asOrdinaryUser(folder: string, work: () => void): void {
  const nobody = 65_534;
  if (process.geteuid?.() !== 0) return work();
  chownSync(folder, nobody, nobody);
  chownSync(join(folder, "old.db"), nobody, nobody);
  process.seteuid?.(nobody);
  try {
    work();
  } finally {
    process.seteuid?.(0);
  }
}
