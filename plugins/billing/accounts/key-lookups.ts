/** Looks up keys by their hash, in batches, so that many unknown keys do not reach the store one by one. */
import { StoreError } from "sluice-gateway/internal/store";
import type { StoredKey } from "./account-store.ts";

/** Reads the keys with these hashes. */
export type ReadKeys = (hashes: readonly string[]) => Promise<readonly StoredKey[]>;

/** Maximum number of hashes per statement. */
const maxBatch = 500;
/** Maximum number of hashes that wait. Further ones are refused, so that a slow database does not fill the memory. */
const maxWaiting = 5_000;

/** One statement is in flight at a time. Hashes that are requested in the meantime are looked up by the next one. */
export class KeyLookups {
  readonly #read: ReadKeys;
  readonly #waiting = new Map<string, PromiseWithResolvers<StoredKey | undefined>>();
  #isReading = false;

  constructor(read: ReadKeys) {
    this.#read = read;
  }

  /** Rejects with the error of the statement, or with StoreError if too many hashes wait. */
  find(hash: string): Promise<StoredKey | undefined> {
    const joined = this.#waiting.get(hash);
    if (joined !== undefined) return joined.promise;
    if (this.#waiting.size >= maxWaiting) return Promise.reject(tooMany());
    const waiting = Promise.withResolvers<StoredKey | undefined>();
    this.#waiting.set(hash, waiting);
    if (!this.#isReading) void this.#readAll();
    return waiting.promise;
  }

  async #readAll(): Promise<void> {
    this.#isReading = true;
    while (this.#waiting.size > 0) {
      const batch = new Map([...this.#waiting].slice(0, maxBatch));
      for (const hash of batch.keys()) this.#waiting.delete(hash);
      try {
        const found = await this.#read([...batch.keys()]);
        const byHash = new Map(found.map((stored) => [stored.hash, stored]));
        for (const [hash, { resolve }] of batch) resolve(byHash.get(hash));
      } catch (error) {
        for (const { reject } of batch.values()) reject(error);
      }
    }
    this.#isReading = false;
  }
}

function tooMany(): StoreError {
  return new StoreError(
    "SLUICE_STORE_BUSY",
    `more than ${maxWaiting} keys wait for the store`,
    "Check the load of the disk, or of PostgreSQL.",
  );
}
