/**
 * SQLite notices damage only where it reads, so a damaged file could be used, and even be backed up, for a long time.
 */
import { existsSync, renameSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { explain, StoreError } from "./store-error.ts";

const busyMs = 5_000;

/**
 * Reads the whole file (0.6 to 1.1 seconds per gigabyte from memory, otherwise as fast as the disk). Returns the error
 * of a damaged database. Undefined if it is sound, or if it cannot be opened for another reason, which its user reports.
 * SQLite compares the structure of pages and rows; it has no checksums of their content.
 */
export function damageOf(file: string): StoreError | undefined {
  try {
    using db = new DatabaseSync(file, { readOnly: true, timeout: busyMs });
    const result = db.prepare("PRAGMA quick_check(1)").get()?.["quick_check"];
    return result === "ok" ? undefined : damaged(file, String(result));
  } catch (error) {
    const explained = explain(error, file);
    return explained.code === "SLUICE_STORE_CORRUPT" ? explained : undefined;
  }
}

export interface Damage {
  readonly message: string;
  readonly remedy: string;
}

export function damagesOf(files: readonly string[]): readonly Damage[] {
  return files.flatMap((file): Damage[] => {
    const damage = damageOf(file);
    return damage === undefined ? [] : [{ message: damage.message, remedy: damage.remedy }];
  });
}

function damaged(file: string, problem: string): StoreError {
  return new StoreError(
    "SLUICE_STORE_CORRUPT",
    `${file} is damaged (${problem.replaceAll(/\s+/g, " ").slice(0, 200)})`,
    "Stop the gateway, and restore the newest backup with `sluice restore`, which keeps this file.",
  );
}

/** Renames a damaged database, so that a new one is created. Returns the new name. Throws the error of the system. */
export function setAside(file: string, now: number): string {
  const aside = `${file}.damaged-${new Date(now).toISOString().replaceAll(":", "-")}`;
  for (const suffix of ["", "-wal", "-shm"]) {
    if (existsSync(file + suffix)) renameSync(file + suffix, aside + suffix);
  }
  return aside;
}
