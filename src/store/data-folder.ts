import { refuseIncompleteRestore } from "./backup/restore-marker.ts";
import { lockStore } from "./lock.ts";

/**
 * Creates the data folder if it is missing, and locks it for this process until disposed. Throws StoreError if the folder
 * cannot be written, if another gateway uses it, or if a restore into it was interrupted.
 */
export function openDataFolder(dataDir: string): Disposable {
  const lock = lockStore(dataDir);
  try {
    refuseIncompleteRestore(dataDir);
    return lock;
  } catch (error) {
    lock[Symbol.dispose]();
    throw error;
  }
}
