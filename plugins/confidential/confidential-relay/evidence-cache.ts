/**
 * The evidence that enclaves have presented, by digest. A client that already has the evidence gets only its digest,
 * and any client can fetch it. The cache does not verify the evidence; its readers do.
 *
 * It holds texts and counts them: the host of a worker can add any members to valid evidence, and parsed values can
 * take twenty times the memory of their text.
 */
import { parseJson } from "sluice-gateway/internal/toolkit";
import { evidenceDigest } from "../protocol/report-data.ts";
import { nodeSuite } from "../protocol/node-crypto.ts";

/** Maximum length of the evidence of keysets. Evidence has 5 to 40 KB, so this covers some hundred workers. */
const maxSharedChars = 32 * 1024 * 1024;
/** Quotes for a single nonce are not presented again, and a client may request any number of them. */
const maxSingleChars = 4 * 1024 * 1024;

export class EvidenceCache {
  readonly #shared = new Texts(maxSharedChars);
  readonly #single = new Texts(maxSingleChars);

  /**
   * Returns the digest, or undefined if the evidence has no canonical form. `evidence`: parsed JSON. `isSingle`: true
   * if it was created for one session; such evidence must not evict the evidence that all sessions of a keyset share.
   */
  async keep(evidence: unknown, isSingle: boolean): Promise<string | undefined> {
    const digest = await evidenceDigest(nodeSuite, evidence);
    if (digest === undefined) return undefined;
    (isSingle ? this.#single : this.#shared).set(digest, JSON.stringify(evidence));
    return digest;
  }

  find(digest: string): unknown {
    const text = this.#shared.get(digest) ?? this.#single.get(digest);
    return text === undefined ? undefined : parseJson(text);
  }
}

/** Texts up to a total length. The map lists the least recently used one first, which is dropped first. */
class Texts {
  readonly #maxChars: number;
  readonly #texts = new Map<string, string>();
  #chars = 0;

  constructor(maxChars: number) {
    this.#maxChars = maxChars;
  }

  get(name: string): string | undefined {
    const text = this.#texts.get(name);
    if (text !== undefined) this.set(name, text);
    return text;
  }

  set(name: string, text: string): void {
    this.#delete(name);
    this.#texts.set(name, text);
    this.#chars += text.length;
    for (const oldest of this.#texts.keys()) {
      if (this.#chars <= this.#maxChars) return;
      this.#delete(oldest);
    }
  }

  #delete(name: string): void {
    this.#chars -= this.#texts.get(name)?.length ?? 0;
    this.#texts.delete(name);
  }
}
