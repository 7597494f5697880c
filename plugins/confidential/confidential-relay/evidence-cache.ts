/**
 * A cache of the evidence that enclaves have shown, by digest. A client that already has the evidence gets only its
 * digest, and any client can fetch it. The cache is in memory. It does not verify the evidence; its readers do.
 */
import { evidenceDigest } from "../protocol/report-data.ts";
import { nodeSuite } from "../protocol/node-crypto.ts";

/** Maximum number of entries for keysets. A keyset is valid for an hour, so this covers some hundred workers. */
const maxShared = 512;
/**
 * Maximum number of quotes for a single nonce. They are not shown again, and a client may request any number of them.
 */
const maxSingle = 64;

export class EvidenceCache {
  readonly #shared = createLruCache(maxShared);
  readonly #single = createLruCache(maxSingle);

  /**
   * Stores evidence and returns its digest. Undefined if the evidence has no canonical form. `evidence`: parsed JSON.
   * `isSingle`: whether it was made for one session; it must not evict the evidence that all sessions of a keyset
   * share.
   */
  async keep(evidence: unknown, isSingle: boolean): Promise<string | undefined> {
    const digest = await evidenceDigest(nodeSuite, evidence);
    if (digest !== undefined) (isSingle ? this.#single : this.#shared).add(digest, evidence);
    return digest;
  }

  find(digest: string): unknown {
    return this.#shared.find(digest) ?? this.#single.find(digest);
  }
}

interface LruCache {
  add(name: string, value: unknown): void;
  find(name: string): unknown;
}

function createLruCache(maxEntries: number): LruCache {
  /** Least recently used first. */
  const values = new Map<string, unknown>();
  const add = (name: string, value: unknown): void => {
    values.delete(name);
    values.set(name, value);
    const oldest = values.keys().next().value;
    if (values.size > maxEntries && oldest !== undefined) values.delete(oldest);
  };
  return {
    add,
    find(name) {
      const value = values.get(name);
      if (value !== undefined) add(name, value);
      return value;
    },
  };
}
