/**
 * Evidence that has been seen, by its digest: a client that has it need not be sent it again, and one that has not can
 * fetch it. In memory, as long as keysets are used; what is verified is verified by whoever reads it.
 */
import { evidenceDigest } from "../protocol/report-data.ts";
import { nodeSuite } from "../protocol/node-crypto.ts";

/** A keyset holds for an hour, so that this is evidence of some hundred workers. */
const mostShared = 512;
/** Of quotes made for one nonce, which nobody is shown again; any client may ask for as many as it likes. */
const mostSingle = 64;

export class EvidenceCache {
  readonly #shared = createRecent(mostShared);
  readonly #single = createRecent(mostSingle);

  /**
   * Its digest; undefined when it has no canonical form. `evidence`: parsed JSON. `isSingle`: made for one session, so that
   * it must not crowd out what every session of a keyset is shown.
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

/** The values used most recently. */
interface Recent {
  add(name: string, value: unknown): void;
  find(name: string): unknown;
}

function createRecent(most: number): Recent {
  /** Least recently used first. */
  const values = new Map<string, unknown>();
  const add = (name: string, value: unknown): void => {
    values.delete(name);
    values.set(name, value);
    const oldest = values.keys().next().value;
    if (values.size > most && oldest !== undefined) values.delete(oldest);
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
