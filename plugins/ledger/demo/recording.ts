/**
 * What the demo node replays: the blocks, the state and the runtime answers of one real runtime, made by
 * test/plugins/ledger/demo/record.ts.
 */
import { readFileSync } from "node:fs";
import { brotliDecompressSync } from "node:zlib";

/**
 * What one storage key held: `[from block on, value, blake2b-256 of the value]`, ascending; null where it was removed.
 */
export type StorageHistory = ([number, string, string] | [number, null])[];

/** A header as `chain_getHeader` gives it. */
interface RecordedHeader {
  readonly parentHash: string;
  readonly number: string;
  readonly stateRoot: string;
  readonly extrinsicsRoot: string;
  readonly digest: { readonly logs: readonly string[] };
}

export interface RecordedBlock {
  readonly hash: string;
  readonly header: RecordedHeader;
  readonly extrinsics: readonly string[];
}

/** All strings of bytes are lower-case hex with `0x`. */
export interface Recording {
  readonly genesisHash: string;
  readonly properties: Readonly<Record<string, unknown>>;
  /** As `state_getRuntimeVersion` gives it: the same at every block. */
  readonly runtimeVersion: Readonly<Record<string, unknown>>;
  /** As `state_getMetadata` gives it (V14). */
  readonly metadata: string;
  /** The runtime itself (storage key `:code`) is too big to ship: its hash and its size. */
  readonly code: { readonly hash: string; readonly bytes: number };
  /** Answers of `state_call` by function and argument; the same at every block. */
  readonly calls: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** The block at index n has number n. */
  readonly blocks: readonly RecordedBlock[];
  /** The whole state but `:code`, keys ascending. */
  readonly storage: Readonly<Record<string, StorageHistory>>;
}

/** Reads the recording that ships with the gateway. */
export function readRecording(): Recording {
  const packed = readFileSync(new URL("./recording.json.br", import.meta.url));
  // The file is ours: test/plugins/ledger/demo/record.ts writes it from a value of this type.
  return JSON.parse(brotliDecompressSync(packed).toString()) as Recording;
}
