/**
 * The names of sessions, which enclaves choose: each is used once, as far back as there are receipts. Otherwise an enclave
 * could bill a request of an earlier session again, or hide one customer's receipt behind another's.
 */
import type { Receipts } from "./receipts.ts";

export interface SessionIds {
  /** Whether no session has it or had it. `name`: base64url of 16 bytes. */
  claim(name: string): boolean;
  /** The session is over, and its receipts are on disk. */
  release(name: string): void;
}

export function createSessionIds(receipts: Pick<Receipts, "has">): SessionIds {
  const open = new Set<string>();
  return {
    claim(name) {
      if (open.has(name) || receipts.has(name)) return false;
      open.add(name);
      return true;
    },
    release: (name) => void open.delete(name),
  };
}
