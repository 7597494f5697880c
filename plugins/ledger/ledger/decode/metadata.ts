/**
 * Reads the metadata of a runtime, versions 14 and 15: the types, the calls, events and storage of the pallets, and the
 * preamble of an extrinsic. Documentation is skipped; everything else is checked. Metadata that does not end where it
 * should is refused.
 *
 * Format: frame-metadata's `RuntimeMetadataV14` and `RuntimeMetadataV15`, scale-info's `PortableRegistry`.
 */
import { Cursor, readList } from "./scale.ts";
import { everyTypeId, readTypes, type TypeDef } from "./type-registry.ts";

/** In the order of their SCALE tags. */
const hashers = [
  "blake2_128",
  "blake2_256",
  "blake2_128_concat",
  "twox_128",
  "twox_256",
  "twox_64_concat",
  "identity",
] as const;
export type Hasher = (typeof hashers)[number];

export interface StorageEntry {
  readonly name: string;
  /** One hasher per key of a map. Empty for a plain value. */
  readonly hashers: readonly Hasher[];
  readonly key: number | undefined;
  readonly value: number;
}

export interface Pallet {
  readonly name: string;
  readonly index: number;
  readonly storagePrefix: string | undefined;
  readonly storage: readonly StorageEntry[];
  readonly calls: number | undefined;
  readonly constants: readonly {
    readonly name: string;
    readonly type: number;
    readonly value: Buffer;
  }[];
}

export interface Metadata {
  readonly types: readonly TypeDef[];
  readonly pallets: readonly Pallet[];
  /**
   * Types in the preamble of an extrinsic. Undefined if V14 metadata does not name them; then only bare extrinsics can
   * be decoded.
   */
  readonly address: number | undefined;
  readonly signature: number | undefined;
  /** Type of the enum that contains the calls of all pallets. */
  readonly call: number | undefined;
  readonly extensions: readonly number[];
}

/** Accepts metadata with or without the prefix `meta`. Undefined if it is damaged or has another version. */
export function readMetadata(bytes: Buffer): Metadata | undefined {
  const cursor = new Cursor(bytes, bytes.toString("latin1", 0, 4) === "meta" ? 4 : 0);
  const version = cursor.u8();
  if (version !== 14 && version !== 15) return undefined;
  const types = readTypes(cursor);
  const pallets: Pallet[] = [];
  for (let left = cursor.count(1); left > 0 && !cursor.hasFailed; left--) {
    pallets.push(readPallet(cursor, version));
  }
  const extrinsic = version === 14 ? readExtrinsicV14(cursor, types) : readExtrinsicV15(cursor);
  // The type of the runtime itself.
  cursor.compact();
  if (version === 15) {
    readApis(cursor);
    // The outer enums: call, event, error.
    for (let i = 0; i < 3; i++) cursor.compact();
    readCustom(cursor);
  }
  if (cursor.hasFailed || cursor.at !== bytes.length) return undefined;
  const metadata: Metadata = { types, pallets, ...extrinsic };
  return hasValidTypeIds(metadata) ? metadata : undefined;
}

function readPallet(cursor: Cursor, version: 14 | 15): Pallet {
  const name = cursor.text();
  let storagePrefix: string | undefined;
  let storage: StorageEntry[] = [];
  if (cursor.option()) {
    storagePrefix = cursor.text();
    storage = readList(cursor, () => readStorageEntry(cursor));
  }
  const calls = cursor.option() ? cursor.compact() : undefined;
  // The event type. It is not needed, because events are read by the type of System.Events.
  if (cursor.option()) cursor.compact();
  const constants = readList(cursor, () => readConstant(cursor));
  if (cursor.option()) cursor.compact();
  const index = cursor.u8();
  if (version === 15) cursor.skipTexts();
  return { name, index, storagePrefix, storage, calls, constants };
}

function readStorageEntry(cursor: Cursor): StorageEntry {
  const name = cursor.text();
  // The modifier: whether an absent value is read as none or as the default.
  if (cursor.u8() > 1) cursor.fail();
  const kind = cursor.u8();
  if (kind > 1) cursor.fail();
  const used = kind === 1 ? readList(cursor, () => readHasher(cursor)) : [];
  const key = kind === 1 ? cursor.compact() : undefined;
  const value = cursor.compact();
  cursor.skipText();
  cursor.skipTexts();
  return { name, hashers: used, key, value };
}

function readHasher(cursor: Cursor): Hasher {
  const hasher = hashers[cursor.u8()];
  if (hasher === undefined) cursor.fail();
  return hasher ?? "identity";
}

function readConstant(cursor: Cursor): Pallet["constants"][number] {
  const name = cursor.text();
  const type = cursor.compact();
  const length = cursor.count(1);
  const value = cursor.bytes.subarray(cursor.at, cursor.at + length);
  cursor.skip(length);
  cursor.skipTexts();
  return { name, type, value };
}

type Extrinsic = Pick<Metadata, "address" | "signature" | "call" | "extensions">;

/** V14 names one type with the parameters Address, Call, Signature and Extra. Its version byte is not reliable. */
function readExtrinsicV14(cursor: Cursor, types: readonly TypeDef[]): Extrinsic {
  const params = types[cursor.compact()]?.params ?? [];
  cursor.skip(1);
  const extensions = readExtensions(cursor);
  const typeOf = (name: string): number | undefined =>
    params.find((param) => param.name === name)?.type;
  return {
    address: typeOf("Address"),
    signature: typeOf("Signature"),
    call: typeOf("Call"),
    extensions,
  };
}

function readExtrinsicV15(cursor: Cursor): Extrinsic {
  cursor.skip(1);
  const address = cursor.compact();
  const call = cursor.compact();
  const signature = cursor.compact();
  // The type of all extensions together. The list that follows has the same content.
  cursor.compact();
  return { address, signature, call, extensions: readExtensions(cursor) };
}

function readExtensions(cursor: Cursor): number[] {
  return readList(cursor, () => {
    cursor.skipText();
    const type = cursor.compact();
    // The additional signed data, which extrinsics do not contain.
    cursor.compact();
    return type;
  });
}

function readApis(cursor: Cursor): void {
  readList(cursor, () => {
    cursor.skipText();
    readList(cursor, () => {
      cursor.skipText();
      readList(cursor, () => {
        cursor.skipText();
        cursor.compact();
      });
      cursor.compact();
      cursor.skipTexts();
    });
    cursor.skipTexts();
  });
}

function readCustom(cursor: Cursor): void {
  readList(cursor, () => {
    cursor.skipText();
    cursor.compact();
    cursor.skipText();
  });
}

function hasValidTypeIds(metadata: Metadata): boolean {
  const { types, pallets, address, signature, call, extensions } = metadata;
  const within = (id: number | undefined): boolean => id === undefined || id < types.length;
  return (
    types.every((type) => everyTypeId(type, within)) &&
    pallets.every(
      ({ calls, storage, constants }) =>
        within(calls) &&
        storage.every((entry) => within(entry.key) && within(entry.value)) &&
        constants.every((constant) => within(constant.type)),
    ) &&
    [address, signature, call, ...extensions].every(within)
  );
}
