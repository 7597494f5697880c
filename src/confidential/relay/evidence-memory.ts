/**
 * Evidence that has been seen, by its digest: a client that has it need not be sent it again, and one that has not can
 * fetch it. In memory, as long as keysets are used; what is verified is verified by whoever reads it.
 */
import { evidenceDigest } from "../statement.ts";
import { nodeSuite } from "../node-crypto.ts";

/** A keyset holds for an hour, so that this is evidence of some hundred workers. */
const mostEntries = 512;

export class EvidenceMemory {
  /** Most recently used last. */
  readonly #byDigest = new Map<string, unknown>();

  /** Its digest; undefined when it has no canonical form. `evidence`: parsed JSON. */
  async keep(evidence: unknown): Promise<string | undefined> {
    const digest = await evidenceDigest(nodeSuite, evidence);
    if (digest === undefined) return undefined;
    this.#byDigest.delete(digest);
    this.#byDigest.set(digest, evidence);
    const oldest = this.#byDigest.keys().next().value;
    if (this.#byDigest.size > mostEntries && oldest !== undefined) this.#byDigest.delete(oldest);
    return digest;
  }

  find(digest: string): unknown {
    const evidence = this.#byDigest.get(digest);
    if (evidence === undefined) return undefined;
    this.#byDigest.delete(digest);
    this.#byDigest.set(digest, evidence);
    return evidence;
  }
}
