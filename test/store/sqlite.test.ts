import assert from "node:assert/strict";
import { chmodSync, chownSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { openDatabase, transaction } from "../../src/store/sqlite.ts";
import { explain, isBusy, StoreError } from "../../src/store/store-error.ts";
import { temporaryFolder } from "./folder.ts";
import { runModule, sourceUrl } from "./run-module.ts";

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
