/** Checks that the data folder of a gateway with accounts in PostgreSQL has no accounts that were not copied. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { isMoved, StoreError } from "sluice-gateway/store";
import { openAccountsDatabase } from "./schema.ts";

/** Throws StoreError if the folder has workspaces that `sluice store migrate` has not copied. */
export function refuseUnmoved(dataDir: string): void {
  if (isMoved(dataDir) || !existsSync(join(dataDir, "accounts.db"))) return;
  const db = openAccountsDatabase(dataDir);
  try {
    if (db.prepare("SELECT 1 FROM workspaces LIMIT 1").get() === undefined) return;
  } finally {
    db.close();
  }
  throw new StoreError(
    "SLUICE_STORE_NOT_MOVED",
    `the data folder ${dataDir} has accounts that are not in PostgreSQL`,
    "Run `sluice store migrate`. To start without these accounts, move accounts.db out of the folder.",
  );
}
