/** Checks that the data folder of a gateway with accounts in PostgreSQL has no accounts that were not copied. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { explain, isMoved, StoreError } from "sluice-gateway/internal/store";
import { accountTables } from "./tables.ts";

/** The files that this release and earlier ones keep accounts in. */
const files = ["state.db", ...accountTables.takeovers.map(({ file }) => file)];

/** Throws StoreError if the folder has workspaces that `sluice store migrate` has not copied. */
export function refuseUnmoved(dataDir: string): void {
  if (isMoved(dataDir) || !files.some((file) => hasWorkspaces(join(dataDir, file)))) return;
  throw new StoreError(
    "SLUICE_STORE_NOT_MOVED",
    `the data folder ${dataDir} has accounts that are not in PostgreSQL`,
    "Run `sluice store migrate`. To start without these accounts, move state.db and accounts.db out of the folder.",
  );
}

function hasWorkspaces(path: string): boolean {
  if (!existsSync(path)) return false;
  try {
    using db = new DatabaseSync(path, { readOnly: true, timeout: 5_000 });
    const tables = db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'workspaces'");
    return (
      tables.get() !== undefined &&
      db.prepare("SELECT 1 FROM workspaces LIMIT 1").get() !== undefined
    );
  } catch (error) {
    throw explain(error, path);
  }
}
