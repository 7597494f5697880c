/**
 * The ids of sessions, which enclaves choose. Each id is used only once, as far back as there are receipts. Otherwise
 * an enclave could charge a request of an earlier session again, or make two customers' receipts collide.
 */
import type { Receipts } from "./receipts.ts";

export interface SessionIds {
  /** Claims an id. Returns false if an open or earlier session has it. `id`: base64url of 16 bytes. */
  claim(id: string): boolean;
  /** Releases the id of a session that has ended and whose receipts are on disk. */
  release(id: string): void;
}

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
