/** `SessionIds` of one process, with the receipts of the data folder. */
import type { Receipts } from "./receipts.ts";
import type { SessionIds } from "./stream-store.ts";

export function createSessionIds(receipts: Pick<Receipts, "has">): SessionIds {
  const open = new Set<string>();
  return {
    claim(id) {
      if (open.has(id) || receipts.has(id)) return false;
      open.add(id);
      return true;
    },
    release: (id) => void open.delete(id),
  };
}
