/**
 * Finds out without a statement that a key does not exist. Anyone can send keys that do not exist, and these must not
 * reach the store one by one.
 */

/** Size of the filter: 4 MiB. With 4 million keys, 1 in 50 unknown keys is still looked up in the store. */
const bits = 2 ** 25;
/** Number of bits per hash. */
const probes = 6;

/**
 * A Bloom filter of the hashes of all keys. Keys are never deleted, so hashes never have to be removed. Hashes are
 * SHA-256 in hex, so their digits are as good as the results of independent hash functions.
 */
export class KnownHashes {
  readonly #words = new Uint32Array(bits / 32);

  add(hash: string): void {
    for (let probe = 0; probe < probes; probe++) {
      const bit = bitOf(hash, probe);
      this.#words[bit >>> 5] = (this.#words[bit >>> 5] ?? 0) | (1 << (bit & 31));
    }
  }

  /** Returns false if the hash was not added. Returns true if it was, and rarely if it was not. */
  mayHave(hash: string): boolean {
    for (let probe = 0; probe < probes; probe++) {
      const bit = bitOf(hash, probe);
      if (((this.#words[bit >>> 5] ?? 0) & (1 << (bit & 31))) === 0) return false;
    }
    return true;
  }
}

function bitOf(hash: string, probe: number): number {
  return Number.parseInt(hash.slice(probe * 8, probe * 8 + 8), 16) % bits;
}
