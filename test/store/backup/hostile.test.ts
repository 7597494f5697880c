/** Archives that are damaged or that an attacker wrote: nothing outside the data folder changes, and nothing in it. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { Header } from "tar";
import { restoreBackup } from "../../../src/store/backup/restore-backup.ts";
import { temporaryFolder } from "../folder.ts";

interface Entry {
  readonly path: string;
  readonly content?: string | Uint8Array;
  readonly type?: "File" | "SymbolicLink" | "Link" | "Directory";
  readonly linkpath?: string;
  /** The size that the header states. */
  readonly size?: number;
  readonly mode?: number;
}

function archiveOf(entries: readonly Entry[]): Buffer {
  const blocks = entries.flatMap(({ path, content = "", type = "File", linkpath, size, mode }) => {
    const body = Buffer.from(content);
    const header = new Header({
      path,
      type,
      mode: mode ?? 0o600,
      size: size ?? body.length,
      mtime: new Date(0),
      ...(linkpath !== undefined && { linkpath }),
    });
    header.encode();
    const padding = Buffer.alloc((512 - (body.length % 512)) % 512);
    return [header.block ?? assert.fail(), body, padding];
  });
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}

const sha256 = (content: string | Uint8Array): string =>
  createHash("sha256").update(content).digest("hex");

function manifestOf(files: object): Entry {
  const members = { format: 1, version: "0.1.0", takenAt: "2026-11-22T10:00:00Z", files };
  return { path: "manifest.json", content: JSON.stringify(members) };
}

function listed(content: string | Uint8Array, more: object = {}): object {
  return { bytes: Buffer.from(content).length, sha256: sha256(content), ...more };
}

const secret: Entry = { path: "secret", content: "planted" };
const listedSecret = listed("planted");
const zeros = 64 * 1024 * 1024;

const archives: Readonly<Record<string, readonly Entry[]>> = {
  "a path that leaves the folder": [
    manifestOf({ secret: listedSecret }),
    { path: "../planted", content: "planted" },
    secret,
  ],
  "an absolute path": [
    manifestOf({ secret: listedSecret }),
    { path: "/tmp/planted", content: "planted" },
    secret,
  ],
  "a path in the manifest": [
    manifestOf({ "../planted": listed("planted") }),
    { path: "../planted", content: "planted" },
  ],
  "a link in place of a file": [
    manifestOf({ secret: listed("outside") }),
    { path: "secret", type: "SymbolicLink", linkpath: "../../outside" },
  ],
  "a link that a later file follows": [
    manifestOf({ secret: listedSecret }),
    { path: "away", type: "SymbolicLink", linkpath: "../.." },
    { path: "away/planted", content: "planted" },
    secret,
  ],
  "a hard link": [
    manifestOf({ secret: listed("outside") }),
    { path: "secret", type: "Link", linkpath: "../../outside" },
  ],
  "a folder in place of a file": [
    manifestOf({ secret: listedSecret }),
    { path: "secret/", type: "Directory" },
  ],
  "the lock of the gateway": [
    manifestOf({ "gateway.lock": listed("planted") }),
    { path: "gateway.lock", content: "planted" },
  ],
  "the marker of a restore": [
    manifestOf({ "restore-incomplete": listed("planted") }),
    { path: "restore-incomplete", content: "planted" },
  ],
  "a database without a schema version, which would not be checked": [
    manifestOf({ "first.db": listed("planted") }),
    { path: "first.db", content: "planted" },
  ],
  "the same file twice": [manifestOf({ secret: listedSecret }), secret, secret],
  "a wrong checksum": [manifestOf({ secret: { bytes: 7, sha256: sha256("other") } }), secret],
  "a size that the manifest does not state": [
    manifestOf({ secret: listedSecret }),
    { path: "secret", content: Buffer.alloc(zeros) },
  ],
  "a size that the archive does not have": [
    manifestOf({ secret: { ...listedSecret, bytes: 8_000_000_000 } }),
    { ...secret, size: 8_000_000_000 },
  ],
  "a file that the manifest does not list": [
    manifestOf({ secret: listedSecret }),
    secret,
    { path: "more", content: "planted" },
  ],
  "a manifest without its members": [{ path: "manifest.json", content: "{}" }, secret],
  "a manifest of 64 MiB": [{ path: "manifest.json", content: Buffer.alloc(zeros, " ") }],
  "more files than a backup has": Array.from({ length: 2_000 }, (_, at) => ({ path: `f-${at}` })),
};

for (const [title, entries] of Object.entries(archives)) {
  for (const name of ["backup.tar", "backup.tgz"]) {
    test(`a restore refuses ${title}: ${name}`, async (t) => {
      const folder = temporaryFolder(t);
      const dataDir = join(folder, "data");
      mkdirSync(dataDir);
      writeFileSync(join(dataDir, "secret"), "mine");
      writeFileSync(join(folder, "outside"), "outside");
      const file = join(folder, name);
      const bytes = archiveOf(entries);
      writeFileSync(file, name.endsWith("z") ? gzipSync(bytes) : bytes);
      const before = readdirSync(folder).toSorted();
      await assert.rejects(restoreBackup({ dataDir, databases: { "first.db": 1 }, now }, file), {
        code: "SLUICE_BACKUP_DAMAGED",
      });
      assert.deepEqual(readdirSync(folder).toSorted(), before);
      const kept = readdirSync(dataDir).filter((each) => each !== "gateway.lock");
      assert.deepEqual(kept, ["secret"]);
      assert.equal(readFileSync(join(dataDir, "secret"), "utf8"), "mine");
      assert.equal(readFileSync(join(folder, "outside"), "utf8"), "outside");
    });
  }
}

const now = (): number => Date.UTC(2026, 10, 22, 10, 0, 0);

test("a restore refuses an archive that needs more space than the disk has, before it writes", async (t) => {
  const folder = temporaryFolder(t);
  const dataDir = join(folder, "data");
  const file = join(folder, "backup.tar");
  writeFileSync(file, archiveOf([manifestOf({ secret: listedSecret }), secret]));
  const target = { dataDir, databases: {}, now };
  const freeBytes = () => Promise.resolve(6);
  await assert.rejects(restoreBackup({ ...target, freeBytes }, file), {
    code: "SLUICE_STORE_FULL",
  });
  assert.deepEqual(readdirSync(dataDir), ["gateway.lock"]);
  await restoreBackup({ ...target, freeBytes: () => Promise.resolve(7) }, file);
});

test("a restore refuses a database whose schema version is not that of the manifest", async (t) => {
  const folder = temporaryFolder(t);
  const source = join(folder, "first.db");
  const db = new DatabaseSync(source);
  db.exec("CREATE TABLE planted (n INTEGER); PRAGMA user_version = 7");
  db.close();
  const content = readFileSync(source);
  const file = join(folder, "backup.tar");
  const files = { "first.db": listed(content, { schemaVersion: 1 }) };
  writeFileSync(file, archiveOf([manifestOf(files), { path: "first.db", content }]));
  const target = { dataDir: join(folder, "data"), databases: { "first.db": 1 }, now };
  await assert.rejects(restoreBackup(target, file), { code: "SLUICE_BACKUP_DAMAGED" });
});

test("only the user can read what a restore writes, whatever the archive says", async (t) => {
  const folder = temporaryFolder(t);
  const dataDir = join(folder, "data");
  const file = join(folder, "backup.tar");
  const open = { ...secret, path: "./secret", mode: 0o4777 };
  writeFileSync(file, archiveOf([manifestOf({ secret: listedSecret }), open]));
  await restoreBackup({ dataDir, databases: {}, now }, file);
  assert.equal(statSync(join(dataDir, "secret")).mode & 0o7777, 0o600);
});
