import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { explain, StoreError } from "./store-error.ts";

const markerName = "moved-to-postgres";

/** `place`: host, port and name of the database, without a password. */
export function markMoved(dataDir: string, place: string): void {
  const file = join(dataDir, markerName);
  try {
    writeFileSync(file, `${place}\n`, { mode: 0o600, flush: true });
  } catch (error) {
    throw explain(error, file);
  }
}

export function isMoved(dataDir: string): boolean {
  return existsSync(join(dataDir, markerName));
}

/** Throws StoreError if the databases of the folder are out of date, because PostgreSQL has their content. */
export function refuseMoved(dataDir: string): void {
  if (!isMoved(dataDir)) return;
  throw new StoreError(
    "SLUICE_STORE_MOVED",
    `the databases of the data folder ${dataDir} have been moved to PostgreSQL`,
    `Set store.postgres (DATABASE_URL). To use the old databases, remove its file ${markerName}.`,
  );
}
