/** Restores a backup into the data folder. The previous files are kept in a folder inside it. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { makeFolder } from "../make-folder.ts";
import { explain, StoreError } from "../store-error.ts";
import { lockStore } from "../lock.ts";
import { describeFile, manifestName, parseManifest, type Manifest } from "./manifest.ts";
import { markerName } from "./restore-marker.ts";
import { sync } from "./write-backup.ts";
import { messageOf } from "../../message-of.ts";

export interface RestoreTarget {
  readonly dataDir: string;
  /** Schema versions of the databases that this release supports, by name. */
  readonly databases: Readonly<Record<string, number>>;
  /** Names of the files with positions (`Module.positions`). Those that exist are kept. */
  readonly positions?: readonly string[];
  readonly now: () => number;
}

export interface Restored {
  readonly manifest: Manifest;
  /** Folder with the files that were in the data folder before. Undefined if there were none. */
  readonly replaced: string | undefined;
}

/**
 * Restores `archive`. Nothing in the data folder changes before the whole archive has been checked. Rejects with
 * StoreError.
 */
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
    folder = await mkdtemp(join(dataDir, ".restore-"));
    await extract(archive, folder);
    const manifest = await checkedManifest(archive, folder, target.databases);
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
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    if (code === "ENOSPC" || code === "EDQUOT") throw explain(error, folder);
    const isMissing = ["ENOENT", "EACCES", "EISDIR", "EPERM"].includes(code);
    if (!isMissing) throw damaged(archive, messageOf(error));
    throw new StoreError(
      "SLUICE_BACKUP_UNREADABLE",
      `cannot read ${archive} (${code})`,
      "Pass the path of a file that `sluice backup` wrote and that this user can read.",
      error,
    );
  }
}

/** Compares the extracted files with the manifest. */
async function checkedManifest(
  archive: string,
  folder: string,
  supported: RestoreTarget["databases"],
): Promise<Manifest> {
  const path = join(folder, manifestName);
  const manifest = existsSync(path) ? parseManifest(readFileSync(path, "utf8")) : undefined;
  if (manifest === undefined) throw damaged(archive, "it has no valid manifest.json");
  const found = readdirSync(folder).filter((name) => name !== manifestName);
  const unlisted = found.filter((name) => !Object.hasOwn(manifest.files, name));
  if (unlisted.length > 0) throw damaged(archive, `its manifest does not list ${unlisted[0]}`);
  for (const [name, { sha256, bytes, schemaVersion }] of Object.entries(manifest.files)) {
    if (!found.includes(name)) throw damaged(archive, `${name} is missing`);
    const actual = await describeFile(join(folder, name));
    if (actual.bytes !== bytes || actual.sha256 !== sha256) {
      throw damaged(archive, `the checksum of ${name} differs from the manifest`);
    }
    if (schemaVersion === undefined) continue;
    refuseNewer(name, schemaVersion, supported[name], manifest.version);
    refuseDamaged(archive, name, join(folder, name));
  }
  return manifest;
}

function refuseNewer(
  name: string,
  version: number,
  supported: number | undefined,
  release: string,
): void {
  if (supported !== undefined && version <= supported) return;
  const limit = supported === undefined ? "does not know it" : `supports ${supported}`;
  throw new StoreError(
    "SLUICE_STORE_NEWER",
    `${name} in the backup has schema version ${version}, and this release ${limit}`,
    `Restore it with release ${release}, which wrote the backup, or with a later one.`,
  );
}

function refuseDamaged(archive: string, name: string, path: string): void {
  try {
    using db = new DatabaseSync(path, { readOnly: true });
    const result = db.prepare("PRAGMA quick_check(1)").get()?.["quick_check"];
    if (result !== "ok") throw damaged(archive, `${name}: ${String(result)}`);
  } catch (error) {
    if (error instanceof StoreError) throw error;
    throw damaged(archive, `${name} is not a database`);
  }
}

function damaged(archive: string, reason: string): StoreError {
  return new StoreError(
    "SLUICE_BACKUP_DAMAGED",
    `${archive} cannot be restored: ${reason}`,
    "Restore another backup. Nothing has been changed.",
  );
}

/**
 * Moves the files into the data folder. Until this is complete, a marker prevents a gateway from starting on a mixture
 * of old and new files.
 */
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
