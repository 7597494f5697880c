/** Takes over the charges of an earlier release, which kept them in `journal.db`. */
import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { explain, openDatabase, StoreError } from "sluice-gateway/internal/store";

/** Schema version of `journal.db` after its charges were taken over. Earlier releases refuse it. */
export const takenOverVersion = 2;

const busyMs = 5_000;

/**
 * Gives the file `earlier` the name `file`, and puts an empty database in its place, which an earlier release refuses.
 * There is a file with the earlier name at every moment, so an earlier release never starts without the charges, and
 * the next start continues a takeover that was interrupted. Does nothing if `earlier` is missing.
 * Throws StoreError.
 */
export function takeOverJournal(earlier: string, file: string): void {
  if (!existsSync(earlier)) return;
  try {
    if (!isTakenOver(earlier)) replace(earlier, file);
    // The sums of an earlier release. They are now in the same file as the charges.
    for (const end of ["", "-wal", "-shm"]) {
      rmSync(join(dirname(earlier), `spend.db${end}`), { force: true });
    }
  } catch (error) {
    throw explain(error, earlier);
  }
}

function replace(earlier: string, file: string): void {
  if (!existsSync(file)) linkSync(earlier, file);
  else if (statSync(earlier).ino !== statSync(file).ino) throw twoFiles(earlier, file);
  const empty = `${earlier}.next`;
  rmSync(empty, { force: true });
  const db = openDatabase(empty, Array<string>(takenOverVersion).fill(""));
  db.exec("PRAGMA journal_mode = DELETE");
  db.close();
  syncFolder(dirname(earlier));
  renameSync(empty, earlier);
  syncFolder(dirname(earlier));
}

/** Returns false after the content of the WAL was moved into the file, so that the file alone has all charges. */
function isTakenOver(earlier: string): boolean {
  using db = new DatabaseSync(earlier, { timeout: busyMs });
  const version = Number(db.prepare("PRAGMA user_version").get()?.["user_version"]);
  if (version > takenOverVersion) {
    throw new StoreError(
      "SLUICE_STORE_NEWER",
      `${earlier} was written by a newer release: it has schema version ${version}, and this release supports ${takenOverVersion}`,
      "Run the release that wrote it, or restore a backup from before the upgrade.",
    );
  }
  if (version === takenOverVersion) return true;
  db.exec("PRAGMA journal_mode = DELETE");
  return false;
}

function twoFiles(earlier: string, file: string): StoreError {
  return new StoreError(
    "SLUICE_STORE_FAILED",
    `${earlier} and ${file} both have charges`,
    "Move the file that does not belong to this data folder to another folder.",
  );
}

function syncFolder(folder: string): void {
  const handle = openSync(folder, "r");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
