import { existsSync, readdirSync } from "node:fs";
import { chmod, mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { makeFolder } from "../make-folder.ts";
import { explain, StoreError } from "../store-error.ts";
import { lockStore } from "../lock.ts";
import { damaged, explainReading, readContents, type RestoreTarget } from "./archive-contents.ts";
import { describeFile, type Manifest } from "./manifest.ts";
import { markerName } from "./restore-marker.ts";
import { schemaVersion as versionOf } from "../sqlite.ts";
import { sync } from "./write-backup.ts";

export interface Restored {
  readonly manifest: Manifest;
  /** Folder with the files that were in the data folder before. Undefined if there were none. */
  readonly replaced: string | undefined;
}

/** Nothing in the data folder changes before the whole archive has been checked. Rejects with StoreError. */
export async function restoreBackup(target: RestoreTarget, archive: string): Promise<Restored> {
  const { dataDir } = target;
  try {
    makeFolder(dataDir);
  } catch (error) {
    throw explain(error, dataDir);
  }
  using _lock = lockStore(dataDir);
  let folder: string | undefined;
  try {
    const manifest = await readContents(archive, target);
    folder = await mkdtemp(join(dataDir, ".restore-"));
    await extract(archive, folder);
    await checkFiles(archive, folder, manifest);
    const replaced = await install(target, manifest, folder);
    return { manifest, replaced };
  } catch (error) {
    throw explain(error, dataDir);
  } finally {
    if (folder !== undefined) await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

async function extract(archive: string, folder: string): Promise<void> {
  const tar = await import("tar");
  try {
    // Other entries than plain files, such as links, have no place in a backup.
    await tar.extract({
      file: archive,
      cwd: folder,
      strict: true,
      preserveOwner: false,
      filter: (_, entry) => "type" in entry && entry.type === "File",
    });
  } catch (error) {
    throw explainReading(error, archive, folder);
  }
}

async function checkFiles(archive: string, folder: string, { files }: Manifest): Promise<void> {
  for (const [name, { sha256, schemaVersion }] of Object.entries(files)) {
    const path = join(folder, name);
    // The archive does not decide who may read the secret.
    await chmod(path, 0o600);
    const actual = await describeFile(path);
    if (actual.sha256 !== sha256) {
      throw damaged(archive, `the checksum of ${name} differs from the manifest`);
    }
    if (schemaVersion !== undefined) refuseDamaged(archive, name, path, schemaVersion);
  }
}

function refuseDamaged(archive: string, name: string, path: string, version: number): void {
  try {
    using db = new DatabaseSync(path, { readOnly: true });
    const result = db.prepare("PRAGMA quick_check(1)").get()?.["quick_check"];
    if (result !== "ok") throw damaged(archive, `${name}: ${String(result)}`);
    if (versionOf(db) !== version) throw damaged(archive, `${name} has another schema version`);
  } catch (error) {
    if (error instanceof StoreError) throw error;
    throw damaged(archive, `${name} is not a database`);
  }
}

/** Until all files are moved, a marker prevents a gateway from starting on a mixture of old and new files. */
async function install(
  { dataDir, positions = [], now }: RestoreTarget,
  manifest: Manifest,
  folder: string,
): Promise<string | undefined> {
  const marker = join(dataDir, markerName);
  await writeFile(marker, `The restore of a backup of ${manifest.takenAt} has not ended.\n`);
  await sync(dataDir);
  const names = Object.keys(manifest.files).filter(
    (name) => !positions.includes(name) || !existsSync(join(dataDir, name)),
  );
  // A -wal file belongs to the database that is replaced. Databases that the backup lacks are from another moment.
  const old = readdirSync(dataDir).filter(
    (name) => /\.db(-wal|-shm)?$/.test(name) || names.includes(name),
  );
  let replaced: string | undefined;
  if (old.length > 0) {
    replaced = join(dataDir, `replaced-${new Date(now()).toISOString().replaceAll(":", "-")}`);
    await mkdir(replaced, { recursive: true, mode: 0o700 });
    for (const name of old) await rename(join(dataDir, name), join(replaced, name));
  }
  for (const name of names) {
    await sync(join(folder, name));
    await rename(join(folder, name), join(dataDir, name));
  }
  await sync(dataDir);
  await rm(marker);
  await sync(dataDir);
  return replaced;
}
