import { statfs } from "node:fs/promises";
import { messageOf } from "../../base/message-of.ts";
import { explain, StoreError } from "../store-error.ts";
import { manifestName, parseManifest, type Manifest } from "./manifest.ts";
import { secretName } from "./write-backup.ts";
import { errorCode } from "../../base/error-code.ts";

export interface RestoreTarget {
  readonly dataDir: string;
  /** Schema versions of the databases that this release supports, by name. */
  readonly databases: Readonly<Record<string, number>>;
  /** Names of the files with positions (`Module.positions`). Those that exist are kept. */
  readonly positions?: readonly string[];
  readonly now: () => number;
  readonly freeBytes?: (folder: string) => Promise<number>;
}

/** Far more than a backup has. */
const maxFiles = 100;
const maxManifestBytes = 1024 * 1024;

/**
 * Reads the manifest and the sizes of the files. An archive may come from anywhere, so nothing is written to the disk
 * before it is known that the archive has the files of a backup and no others, and that they fit.
 */
export async function readContents(archive: string, target: RestoreTarget): Promise<Manifest> {
  const tar = await import("tar");
  const sizes = new Map<string, number>();
  const pieces: Buffer[] = [];
  let problem: string | undefined;
  try {
    await tar.list({
      file: archive,
      strict: true,
      onReadEntry(entry) {
        const { type, path, size } = entry;
        if (type !== "File" || problem !== undefined) return;
        const name = nameIn(path);
        if (sizes.has(name)) problem = `it has two files ${name}`;
        if (sizes.size >= maxFiles) problem = "it has too many files";
        if (name === manifestName && size > maxManifestBytes) problem = "its manifest is too long";
        sizes.set(name, size);
        if (name === manifestName) entry.on("data", (piece) => void pieces.push(piece));
      },
    });
  } catch (error) {
    throw explainReading(error, archive, target.dataDir);
  }
  if (problem !== undefined) throw damaged(archive, problem);
  const manifest = parseManifest(Buffer.concat(pieces).toString());
  if (manifest === undefined) throw damaged(archive, "it has no valid manifest.json");
  sizes.delete(manifestName);
  checkContents(archive, manifest, sizes, target);
  const bytes = sizes.values().reduce((sum, size) => sum + size, 0);
  const { freeBytes = freeBytesAt } = target;
  if (bytes > (await freeBytes(target.dataDir))) {
    throw explain(Object.assign(new Error("disk full"), { code: "ENOSPC" }), target.dataDir);
  }
  return manifest;
}

async function freeBytesAt(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}

/** Returns the name of a file in the data folder. A path to anywhere else remains, and no manifest can list it. */
function nameIn(path: string): string {
  return path.replace(/^\.\//, "");
}

function checkContents(
  archive: string,
  { files, version }: Manifest,
  sizes: ReadonlyMap<string, number>,
  { databases, positions = [] }: RestoreTarget,
): void {
  const unlisted = sizes.keys().find((name) => !Object.hasOwn(files, name));
  if (unlisted !== undefined) throw damaged(archive, `its manifest does not list ${unlisted}`);
  for (const [name, { bytes, schemaVersion }] of Object.entries(files)) {
    const size = sizes.get(name);
    if (size === undefined) throw damaged(archive, `${name} is missing`);
    if (size !== bytes) throw damaged(archive, `the size of ${name} differs from the manifest`);
    const supported = Object.hasOwn(databases, name) ? databases[name] : undefined;
    if (schemaVersion !== undefined) refuseNewer(name, schemaVersion, supported, version);
    else if (name !== secretName && !positions.includes(name)) {
      throw damaged(archive, `${name} is not a file of a backup`);
    }
  }
}

export function explainReading(error: unknown, archive: string, folder: string): unknown {
  const code = errorCode(error) ?? "";
  if (code === "ENOSPC" || code === "EDQUOT") return explain(error, folder);
  const isMissing = ["ENOENT", "EACCES", "EISDIR", "EPERM"].includes(code);
  if (!isMissing) return damaged(archive, messageOf(error));
  return new StoreError(
    "SLUICE_BACKUP_UNREADABLE",
    `cannot read ${archive} (${code})`,
    "Pass the path of a file that `sluice backup` wrote and that this user can read.",
    error,
  );
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

export function damaged(archive: string, reason: string): StoreError {
  return new StoreError(
    "SLUICE_BACKUP_DAMAGED",
    `${archive} cannot be restored: ${reason}`,
    "Restore another backup. Nothing has been changed.",
  );
}
