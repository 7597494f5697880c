import { existsSync } from "node:fs";
import { join } from "node:path";
import { StoreError } from "../store-error.ts";

export const markerName = "restore-incomplete";

/** Throws StoreError if a restore was interrupted, because the databases may be from different moments. */
export function refuseIncompleteRestore(dataDir: string): void {
  if (!existsSync(join(dataDir, markerName))) return;
  throw new StoreError(
    "SLUICE_RESTORE_INCOMPLETE",
    `a restore into ${dataDir} was interrupted`,
    "Run `sluice restore` with the same backup again.",
  );
}
