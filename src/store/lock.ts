/** Allows one gateway process per data folder. Two processes would each grant the whole of every limit. */
import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { explain, isBusy, StoreError } from "./store-error.ts";
import { openPrivate } from "./sqlite.ts";

/**
 * The kernel releases the lock when the process dies. Commands do not lock the folder, so they can run at the same time
 * as a gateway. Throws StoreError if another gateway has the lock.
 */
export function lockStore(dataDir: string): Disposable {
  const file = join(dataDir, "gateway.lock");
  let db: DatabaseSync | undefined;
  try {
    db = openPrivate(file, 0);
    db.exec("BEGIN EXCLUSIVE");
  } catch (error) {
    db?.close();
    if (!isBusy(error)) throw explain(error, file);
    throw new StoreError(
      "SLUICE_STORE_IN_USE",
      `another gateway is using the data folder ${dataDir}`,
      "Stop the other gateway, or set store.data (DATA_DIR) to another folder.",
      error,
    );
  }
  const held = db;
  return {
    [Symbol.dispose]() {
      if (held.isOpen) held.close();
    },
  };
}
