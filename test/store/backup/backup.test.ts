/** Tests of the algorithms of backups and restores. test/commands/backup.slow.test.ts tests the commands. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test, type TestContext } from "node:test";
import { Worker } from "node:worker_threads";
import { restoreBackup } from "../../../src/store/backup/restore-backup.ts";
import { refuseIncompleteRestore } from "../../../src/store/backup/restore-marker.ts";
import { writeBackup } from "../../../src/store/backup/write-backup.ts";
import { openDatabase } from "../../../src/store/sqlite.ts";
import { StoreError } from "../../../src/store/store-error.ts";
import { damage } from "../damage.ts";
import { temporaryFolder } from "../folder.ts";

const schema = ["CREATE TABLE entries (n INTEGER PRIMARY KEY, filler TEXT NOT NULL) STRICT"];
const databases = { "first.db": 1, "second.db": 1 };
const running = new AbortController().signal;
const now = () => Date.UTC(2026, 10, 22, 10, 0, 0);

interface Folders {
  readonly folder: string;
  readonly dataDir: string;
  readonly file: string;
}

function prepare(t: TestContext, rows: number): Folders {
  const folder = temporaryFolder(t);
  const dataDir = join(folder, "data");
  for (const name of Object.keys(databases)) add(dataDir, name, rows);
  writeFileSync(join(dataDir, "secret"), "a secret", { mode: 0o600 });
  return { folder, dataDir, file: join(folder, "backup.tgz") };
}

function add(dataDir: string, name: string, rows: number): void {
  const db = openDatabase(join(dataDir, name), schema);
  const insert = db.prepare("INSERT INTO entries (filler) VALUES (?)");
  for (let n = 0; n < rows; n++) insert.run("x".repeat(100));
  db.close();
}

function count(dataDir: string, name: string): number {
  const db = new DatabaseSync(join(dataDir, name));
  const rows = db.prepare("SELECT count(*) AS rows FROM entries").get()?.["rows"];
  db.close();
  return Number(rows);
}

function backUp(
  { dataDir, file }: Folders,
  signal: AbortSignal = running,
  positions: readonly string[] = [],
) {
  const names = Object.keys(databases);
  const source = { dataDir, databases: names, positions, version: "0.1.0", now };
  return writeBackup(source, file, signal);
}

test("a restore brings back the databases and the secret, and keeps what was there", async (t) => {
  const folders = prepare(t, 10);
  const { dataDir, file } = folders;
  const manifest = await backUp(folders);
  assert.deepEqual(Object.keys(manifest.files).toSorted(), ["first.db", "second.db", "secret"]);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  add(dataDir, "first.db", 5);
  writeFileSync(join(dataDir, "secret"), "another secret");

  const { replaced } = await restoreBackup({ dataDir, databases, now }, file);
  assert.equal(count(dataDir, "first.db"), 10);
  assert.equal(readFileSync(join(dataDir, "secret"), "utf8"), "a secret");
  assert.equal(replaced, join(dataDir, "replaced-2026-11-22T10-00-00.000Z"));
  assert.equal(count(replaced, "first.db"), 15);
  assert.deepEqual(
    readdirSync(dataDir).filter((name) => name.startsWith(".") || name === "restore-incomplete"),
    [],
  );
});

test("all databases are copied as they were at one moment, while another thread writes", async (t) => {
  const folders = prepare(t, 2_000);
  const { dataDir } = folders;
  // Adds an entry to the first database and then to the second one, so the second never has more.
  const stop = new Int32Array(new SharedArrayBuffer(4));
  const writer = new Worker(
    `const { DatabaseSync } = require("node:sqlite");
    const { parentPort, workerData: { dataDir, stop } } = require("node:worker_threads");
    const [first, second] = ["first.db", "second.db"].map((name) => {
      const db = new DatabaseSync(dataDir + "/" + name, { timeout: 5000 });
      db.exec("PRAGMA synchronous = OFF");
      return db.prepare("INSERT INTO entries (filler) VALUES ('y')");
    });
    do {
      first.run();
      second.run();
      parentPort.postMessage("written");
      Atomics.wait(stop, 0, 0, 1);
    } while (Atomics.load(stop, 0) === 0);`,
    { eval: true, workerData: { dataDir, stop } },
  );
  t.after(() => writer.terminate());
  await new Promise((resolve) => writer.once("message", resolve));
  for (let round = 0; round < 3; round++) {
    const file = join(folders.folder, `backup-${round}.tar`);
    await backUp({ ...folders, file });
    const target = join(folders.folder, `restored-${round}`);
    await restoreBackup({ dataDir: target, databases, now }, file);
    const ahead = count(target, "first.db") - count(target, "second.db");
    assert.ok(ahead === 0 || ahead === 1, `the first database is ${ahead} entries ahead`);
    assert.ok(count(target, "first.db") > 2_000);
  }
  Atomics.store(stop, 0, 1);
  await new Promise((resolve) => writer.once("exit", resolve));
});

test("an existing file is not replaced, and an interrupted backup leaves nothing", async (t) => {
  const folders = prepare(t, 5);
  writeFileSync(folders.file, "mine");
  await assert.rejects(backUp(folders), { code: "SLUICE_BACKUP_EXISTS" });
  assert.equal(readFileSync(folders.file, "utf8"), "mine");

  const other = { ...folders, file: join(folders.folder, "other.tar") };
  await assert.rejects(backUp(other, AbortSignal.abort()), { name: "AbortError" });
  assert.deepEqual(readdirSync(folders.folder).toSorted(), ["backup.tgz", "data"]);
});

test("faults of a backup have codes", async (t) => {
  const folders = prepare(t, 1);
  const missing = join(folders.folder, "missing", "backup.tar");
  await assert.rejects(backUp({ ...folders, file: missing }), { code: "SLUICE_BACKUP_UNWRITABLE" });
  const empty = join(folders.folder, "empty");
  await assert.rejects(backUp({ ...folders, dataDir: empty }), { code: "SLUICE_BACKUP_EMPTY" });
});

test("a backup of a newer release is refused, and nothing changes", async (t) => {
  const folders = prepare(t, 4);
  const db = new DatabaseSync(join(folders.dataDir, "first.db"));
  db.exec("PRAGMA user_version = 7");
  db.close();
  await backUp(folders);
  add(folders.dataDir, "second.db", 1);
  await assert.rejects(restoreBackup({ ...folders, databases, now }, folders.file), {
    code: "SLUICE_STORE_NEWER",
    message: /first\.db in the backup has schema version 7, and this release supports 1/,
  });
  await assert.rejects(
    restoreBackup({ ...folders, databases: { "second.db": 1 }, now }, folders.file),
    { code: "SLUICE_STORE_NEWER", message: /does not know it/ },
  );
  assert.equal(count(folders.dataDir, "second.db"), 5);
});

test("what is not a whole archive is refused", async (t) => {
  const folders = prepare(t, 200);
  await backUp(folders);
  const bytes = readFileSync(folders.file);
  const short = join(folders.folder, "short.tgz");
  writeFileSync(short, bytes.subarray(0, bytes.length / 2));
  const text = join(folders.folder, "text.tar");
  writeFileSync(text, "this is no archive");
  for (const file of [short, text]) {
    await assert.rejects(restoreBackup({ ...folders, databases, now }, file), {
      code: "SLUICE_BACKUP_DAMAGED",
    });
  }
  const missing = join(folders.folder, "missing.tar");
  await assert.rejects(restoreBackup({ ...folders, databases, now }, missing), {
    code: "SLUICE_BACKUP_UNREADABLE",
  });
});

test("a position never goes back, and is restored if it is missing", async (t) => {
  const folders = prepare(t, 1);
  const positions = ["position.json"];
  const file = join(folders.dataDir, "position.json");
  writeFileSync(file, "older");
  await backUp(folders, running, positions);
  writeFileSync(file, "newer");
  await restoreBackup({ ...folders, databases, positions, now }, folders.file);
  assert.equal(readFileSync(file, "utf8"), "newer");
  rmSync(file);
  await restoreBackup({ ...folders, databases, positions, now }, folders.file);
  assert.equal(readFileSync(file, "utf8"), "older");
});

test("a gateway refuses a data folder whose restore was interrupted", (t) => {
  const dataDir = temporaryFolder(t);
  refuseIncompleteRestore(dataDir);
  writeFileSync(join(dataDir, "restore-incomplete"), "");
  assert.throws(() => refuseIncompleteRestore(dataDir), { code: "SLUICE_RESTORE_INCOMPLETE" });
});

test("a backup of a damaged database fails, names the file and the remedy, and leaves no archive", async (t) => {
  const folders = prepare(t, 2_000);
  const path = join(folders.dataDir, "second.db");
  for (const page of [1, 3, 10, 20]) {
    const whole = readFileSync(path);
    damage(path, page);
    await assert.rejects(backUp(folders), (error) => {
      assert.ok(error instanceof StoreError);
      assert.equal(error.code, "SLUICE_STORE_CORRUPT", error.message);
      assert.match(error.message, /second\.db/);
      assert.doesNotMatch(error.message, /first\.db/);
      assert.match(error.remedy, /restore/i);
      return true;
    });
    assert.deepEqual(readdirSync(folders.folder), ["data"], `page ${page}`);
    writeFileSync(path, whole);
  }
  await backUp(folders);
});
