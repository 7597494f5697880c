import type { Recording, StorageHistory } from "./recording.ts";

type KeyValue = readonly [key: string, value: string | null];

export type RecordedChain = ReturnType<typeof openChain>;

/** `:code` in hex, the only key whose value was too large to record. */
const codeKey = "0x3a636f6465";

/** twox128("System") ‖ twox128("Account"), the prefix of all keys of that map. */
const accountPrefix = "0x26aa394eea5630e07c48ae0c9558cef7b99d880ec681799c0cf30e8886371da9";

/** Blocks are identified by their number, which `numberOf` returns. */
export function openChain(recording: Recording) {
  const { blocks, code } = recording;
  const storage = new Map(Object.entries(recording.storage));
  // Hex in one case has the same order as the bytes.
  const keys = [...storage.keys()].toSorted();
  const numbers = new Map(blocks.map(({ hash }, number) => [hash, number]));
  const valueAt = (key: string, number: number) => lastUpTo(storage.get(key), number)?.[1] ?? null;
  /** Returns up to `count` keys that start with `prefix` and come after `after`, in ascending order. */
  const keysAt = (prefix: string, count: number, after: string | undefined, number: number) => {
    const found: string[] = [];
    for (const key of keys) {
      if (found.length === count) break;
      if (!key.startsWith(prefix) || (after !== undefined && key <= after)) continue;
      if (valueAt(key, number) !== null) found.push(key);
    }
    return found;
  };

  return {
    recording,
    /** Number of the last block. It is both best and finalized, because a recording does not grow. */
    head: blocks.length - 1,
    block(number: number) {
      const block = blocks[number];
      if (block === undefined) throw new RangeError(`no block ${number} was recorded`);
      return block;
    },
    /** `hash`: lower-case hex. Undefined if no block has it. */
    numberOf: (hash: string) => numbers.get(hash),
    valueAt,
    /** Returns the blake2b-256 and the size of a value, including that of `:code`. Undefined if there is no value. */
    digestAt(key: string, number: number): Recording["code"] | undefined {
      if (key === codeKey) return code;
      const entry = lastUpTo(storage.get(key), number);
      if (entry === undefined || entry[1] === null) return undefined;
      return { hash: entry[2], bytes: (entry[1].length - 2) / 2 };
    },
    keysAt,
    changesOf: (wanted: readonly string[], number: number) =>
      wanted.flatMap((key): KeyValue[] => {
        const entry = storage.get(key)?.find(([from]) => from === number);
        return entry === undefined ? [] : [[key, entry[1]]];
      }),
    /**
     * Returns the nonce of an account id (64 hex digits) at a block, or 0 for an account that does not exist. A key of
     * the map ends with the account id itself, so its hash does not have to be computed. AccountInfo starts with the
     * nonce, a little-endian u32.
     */
    nonceAt(accountId: string, number: number) {
      const accounts = keysAt(accountPrefix, Infinity, undefined, number);
      const key = accounts.find((each) => each.endsWith(accountId));
      const account = key === undefined ? null : valueAt(key, number);
      return account === null ? 0 : Buffer.from(account.slice(2, 10), "hex").readUInt32LE();
    },
  };
}

function lastUpTo(history: StorageHistory | undefined, number: number) {
  return history?.findLast(([from]) => from <= number);
}
