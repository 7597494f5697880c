/** One gateway process a data folder: two would each believe they hold the whole credit of every key. */
import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { explain, isBusy, StoreError } from "./store-error.ts";
import { openPrivate } from "./sqlite.ts";

/**
 * Takes the data folder for this process until disposed. The kernel gives it back when the process dies, however it
 * dies. Commands do not take it: they work beside a running gateway. Throws StoreError when another gateway has it.
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
      "Stop it, or give this one a data folder of its own (store.data, DATA_DIR).",
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
