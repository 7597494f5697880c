/**
 * A cache of the evidence that enclaves have presented, by digest. A client that already has the evidence gets only
 * its digest, and any client can fetch it. The cache is in memory. It does not verify the evidence; its readers do.
 */
import { BoundedMap } from "sluice-gateway/toolkit";
import { evidenceDigest } from "../protocol/report-data.ts";
import { nodeSuite } from "../protocol/node-crypto.ts";

/** Maximum number of entries for keysets. A keyset is valid for an hour, so this covers some hundred workers. */
const maxShared = 512;
/**
 * Maximum number of quotes for a single nonce. They are not presented again, and a client may request any number of
 * them.
 */
const maxSingle = 64;

export class EvidenceCache {
  readonly #shared = new BoundedMap<string, unknown>(maxShared);
  readonly #single = new BoundedMap<string, unknown>(maxSingle);

  /**
   * Stores evidence and returns its digest. Undefined if the evidence has no canonical form. `evidence`: parsed JSON.
   * `isSingle`: true if it was created for one session; such evidence must not evict the evidence that all sessions of
   * a keyset share.
   */
  async keep(evidence: unknown, isSingle: boolean): Promise<string | undefined> {
    const digest = await evidenceDigest(nodeSuite, evidence);
    if (digest !== undefined) (isSingle ? this.#single : this.#shared).set(digest, evidence);
    return digest;
  }

  find(digest: string): unknown {
    return this.#shared.get(digest) ?? this.#single.get(digest);
  }
}
