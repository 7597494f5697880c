import { existsSync } from "node:fs";
import { chmod, copyFile, link, mkdtemp, open, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { backup } from "node:sqlite";
import { Readable, type Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { damageOf } from "../integrity.ts";
import { schemaVersion } from "../sqlite.ts";
import { explain, StoreError } from "../store-error.ts";
import {
  createManifest,
  describeFile,
  manifestName,
  type BackedUpFile,
  type Manifest,
} from "./manifest.ts";
import { openSnapshots } from "./snapshots.ts";
import { errorCode } from "../../base/error-code.ts";

export interface BackupSource {
  readonly dataDir: string;
  /** Names of the databases in the data folder. Those that do not exist are left out. */
  readonly databases: readonly string[];
  /** Names of the databases that a gateway which starts replaces if they are damaged. */
  readonly disposable?: readonly string[];
  /** Names of the files with positions (`Module.positions`). Those that do not exist are left out. */
  readonly positions?: readonly string[];
  readonly version: string;
  readonly now: () => number;
}

export const secretName = "secret";
/** Pages that are copied before other work of the process runs. */
const pagesPerStep = 1_000;

/**
 * Writes the backup to `target`, which must not exist and has no content until the backup is complete. A gateway may use
 * the data folder meanwhile. Rejects with StoreError.
 */
export async function writeBackup(
  source: BackupSource,
  target: string,
  signal: AbortSignal,
): Promise<Manifest> {
  refuseExisting(target);
  const folderName = join(dirname(target), `.${basename(target)}-`);
  return inFolder(source, { folderName, target, signal }, async (folder, manifest) => {
    const archive = join(folder, "archive");
    const { create } = await import("tar");
    const names = [manifestName, ...Object.keys(manifest.files)];
    await create({ file: archive, cwd: folder, portable: true, gzip: isCompressed(target) }, names);
    await chmod(archive, 0o600);
    await sync(archive);
    signal.throwIfAborted();
    // Fails if another process has created the file meanwhile; a rename would replace it.
    await link(archive, target);
    await sync(dirname(target));
  });
}

/**
 * Writes the backup to a stream, which stays open. The databases are copied to a folder in the data folder meanwhile.
 * Rejects with StoreError; the stream may then have a part of the archive, which `sluice restore` refuses.
 */
export async function streamBackup(
  source: BackupSource,
  output: Writable,
  signal: AbortSignal,
): Promise<Manifest> {
  const options = { folderName: join(source.dataDir, ".backup-"), target: "the output", signal };
  return inFolder(source, options, async (folder, manifest) => {
    const { create } = await import("tar");
    const names = [manifestName, ...Object.keys(manifest.files)];
    const archive = create({ cwd: folder, portable: true }, names);
    await pipeline(Readable.from(archive), output, { end: false, signal });
  });
}

interface BackupOptions {
  readonly folderName: string;
  readonly target: string;
  readonly signal: AbortSignal;
}

async function inFolder(
  source: BackupSource,
  { folderName, target, signal }: BackupOptions,
  write: (folder: string, manifest: Manifest) => Promise<void>,
): Promise<Manifest> {
  const files = source.databases.filter((name) => existsSync(join(source.dataDir, name)));
  if (files.length === 0) {
    throw new StoreError(
      "SLUICE_BACKUP_EMPTY",
      `the data folder ${source.dataDir} contains no database`,
      "Set store.data (DATA_DIR) to the folder that the gateway uses.",
    );
  }
  let folder: string | undefined;
  try {
    folder = await mkdtemp(folderName);
    const manifest = await copyFiles(source, files, folder, signal);
    await write(folder, manifest);
    return manifest;
  } catch (error) {
    throw explainWriting(error, target, signal);
  } finally {
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  }
}

async function copyFiles(
  { dataDir, disposable = [], positions = [], version, now }: BackupSource,
  databases: readonly string[],
  folder: string,
  signal: AbortSignal,
): Promise<Manifest> {
  const files: Record<string, BackedUpFile> = {};
  // They are read before the snapshots, so they are never newer than these.
  for (const name of [secretName, ...positions].filter((each) => existsSync(join(dataDir, each)))) {
    await copyFile(join(dataDir, name), join(folder, name));
    files[name] = await describeFile(join(folder, name));
  }
  using snapshots = openSnapshots(databases.map((name) => join(dataDir, name)));
  const takenAt = new Date(now()).toISOString();
  for (const [path, db] of snapshots.databases) {
    const name = basename(path);
    const copy = join(folder, name);
    try {
      await backup(db, copy, { rate: pagesPerStep, progress: () => signal.throwIfAborted() });
    } catch (error) {
      if (explain(error, path).code !== "SLUICE_STORE_CORRUPT") throw error;
      throw damagedError(path, disposable.includes(name));
    }
    if (damageOf(copy) !== undefined) throw damagedError(path, disposable.includes(name));
    files[name] = await describeFile(copy, schemaVersion(db));
  }
  const manifest = createManifest({ version, takenAt, files });
  await writeFile(join(folder, manifestName), `${JSON.stringify(manifest, undefined, 2)}\n`);
  return manifest;
}

function damagedError(path: string, isDisposable: boolean): StoreError {
  return new StoreError(
    "SLUICE_STORE_CORRUPT",
    `${path} is damaged, so no backup has been written`,
    isDisposable
      ? "Restart the gateway. It replaces this file, which it can do without."
      : "Stop the gateway, and restore the newest backup with `sluice restore`, which keeps this file.",
  );
}

function isCompressed(file: string): boolean {
  return /\.t?gz$/.test(file);
}

export async function sync(path: string): Promise<void> {
  await using handle = await open(path);
  await handle.sync();
}

function refuseExisting(target: string): void {
  if (existsSync(target)) throw existsError(target);
}

function existsError(target: string): StoreError {
  return new StoreError(
    "SLUICE_BACKUP_EXISTS",
    `${target} already exists`,
    "Choose another name: a backup never replaces a file.",
  );
}

function explainWriting(error: unknown, target: string, signal: AbortSignal): unknown {
  if (error instanceof StoreError || !(error instanceof Error) || signal.aborted) return error;
  const code = errorCode(error);
  if (code === "EEXIST") return existsError(target);
  const full = code === "ENOSPC" || code === "EDQUOT";
  return new StoreError(
    full ? "SLUICE_STORE_FULL" : "SLUICE_BACKUP_UNWRITABLE",
    `cannot write ${target} (${error.message})`,
    full
      ? "Free some disk space: a backup needs twice the size of the databases while it is written."
      : "Choose a folder that exists and that this user can write to.",
    error,
  );
}
