/** The recording of one real runtime that the demo node replays. .ci/record-demo.ts creates it. */
import { readFileSync } from "node:fs";
import { brotliDecompressSync } from "node:zlib";
import { packageFile } from "sluice-gateway/internal/package-files";

/** Entries in ascending order: `[first block, value, blake2b-256 of the value]`, or null for a removed value. */
export type StorageHistory = ([number, string, string] | [number, null])[];

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
  readonly runtimeVersion: Readonly<Record<string, unknown>>;
  /** The answer of `state_getMetadata` (V14). */
  readonly metadata: string;
  /** Hash and size of the runtime (storage key `:code`), which is too large to ship. */
  readonly code: { readonly hash: string; readonly bytes: number };
  /** Answers of `state_call` by function and argument; the same at every block. */
  readonly calls: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** The block at index n has number n. */
  readonly blocks: readonly RecordedBlock[];
  /** The whole state except `:code`, with ascending keys. */
  readonly storage: Readonly<Record<string, StorageHistory>>;
}

export function readRecording(): Recording {
  const packed = readFileSync(packageFile("plugins/ledger/demo/recording.json.br"));
  // .ci/record-demo.ts writes the file from a value of this type.
  return JSON.parse(brotliDecompressSync(packed).toString()) as Recording;
}
