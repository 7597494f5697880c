import type { RecordedBlock, Recording, StorageHistory } from "./recording.ts";

type KeyValue = readonly [key: string, value: string | null];

/** Blocks are identified by their number, which `numberOf` returns. */
export interface RecordedChain {
  readonly recording: Recording;
  /** Number of the last block. It is both best and finalized, because a recording does not grow. */
  readonly head: number;
  block(number: number): RecordedBlock;
  /** `hash`: lower-case hex. Undefined if no block has it. */
  numberOf(hash: string): number | undefined;
  valueAt(key: string, number: number): string | null;
  /** Returns the blake2b-256 and the size of a value, including that of `:code`. Undefined if there is no value. */
  digestAt(
    key: string,
    number: number,
  ): { readonly hash: string; readonly bytes: number } | undefined;
  /** Returns up to `count` keys that start with `prefix` and come after `after`, in ascending order. */
  keysAt(prefix: string, count: number, after: string | undefined, number: number): string[];
  changesOf(keys: readonly string[], number: number): KeyValue[];
}

/** `:code` in hex, the only key whose value was too large to record. */
const codeKey = "0x3a636f6465";

export function openChain(recording: Recording): RecordedChain {
  const { blocks, code } = recording;
  const storage = new Map(Object.entries(recording.storage));
  // Hex in one case has the same order as the bytes.
  const keys = [...storage.keys()].toSorted();
  const numbers = new Map(blocks.map(({ hash }, number) => [hash, number]));
  const valueAt = (key: string, number: number) => lastUpTo(storage.get(key), number)?.[1] ?? null;

  return {
    recording,
    head: blocks.length - 1,
    block(number) {
      const block = blocks[number];
      if (block === undefined) throw new RangeError(`no block ${number} was recorded`);
      return block;
    },
    numberOf: (hash) => numbers.get(hash),
    valueAt,
    digestAt(key, number) {
      if (key === codeKey) return code;
      const entry = lastUpTo(storage.get(key), number);
      if (entry === undefined || entry[1] === null) return undefined;
      return { hash: entry[2], bytes: (entry[1].length - 2) / 2 };
    },
    keysAt(prefix, count, after, number) {
      const found: string[] = [];
      for (const key of keys) {
        if (found.length === count) break;
        if (!key.startsWith(prefix) || (after !== undefined && key <= after)) continue;
        if (valueAt(key, number) !== null) found.push(key);
      }
      return found;
    },
    changesOf: (wanted, number) =>
      wanted.flatMap((key): KeyValue[] => {
        const entry = storage.get(key)?.find(([from]) => from === number);
        return entry === undefined ? [] : [[key, entry[1]]];
      }),
  };
}

function lastUpTo(history: StorageHistory | undefined, number: number) {
  return history?.findLast(([from]) => from <= number);
}
