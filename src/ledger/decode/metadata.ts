/**
 * Reads a runtime's metadata, versions 14 and 15: what every type looks like, which calls, events and storage the
 * pallets have, what stands around a call in an extrinsic. Documentation is skipped, nothing else is left out of the
 * check: metadata that does not end where it should is refused as a whole.
 *
 * Format: frame-metadata's `RuntimeMetadataV14` and `RuntimeMetadataV15`, scale-info's `PortableRegistry`.
 */
import { Cursor } from "./scale.ts";

export interface Field {
  readonly name: string | undefined;
  readonly type: number;
}

export interface Variant {
  readonly name: string;
  readonly index: number;
  readonly fields: readonly Field[];
}

/** A type by its shape; numbers are ids of other types, in `Metadata.types`. */
export type TypeForm =
  | { readonly kind: "composite"; readonly fields: readonly Field[] }
  /** Variants stand at their index; there may be holes. */
  | { readonly kind: "variant"; readonly variants: readonly (Variant | undefined)[] }
  | { readonly kind: "sequence"; readonly of: number }
  | { readonly kind: "array"; readonly of: number; readonly length: number }
  | { readonly kind: "tuple"; readonly of: readonly number[] }
  | { readonly kind: "primitive"; readonly name: Primitive }
  | { readonly kind: "compact"; readonly of: number }
  | { readonly kind: "bits"; readonly store: number };

export type TypeDef = TypeForm & {
  /** The last segment of the path (`AccountId32`), or "". */
  readonly path: string;
  readonly params: readonly { readonly name: string; readonly type: number | undefined }[];
};

/** In the order of their SCALE tags. */
const primitives = [
  "bool",
  "char",
  "str",
  "u8",
  "u16",
  "u32",
  "u64",
  "u128",
  "u256",
  "i8",
  "i16",
  "i32",
  "i64",
  "i128",
  "i256",
] as const;
export type Primitive = (typeof primitives)[number];

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
  /** Empty for a plain value; one hasher a key for a map. */
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
  /** What stands around the call of an extrinsic; undefined where V14 metadata does not say (then only bare ones decode). */
  readonly address: number | undefined;
  readonly signature: number | undefined;
  /** The call type that holds all pallets' calls. */
  readonly call: number | undefined;
  /** Types of the transaction extensions' own data, in their order. */
  readonly extensions: readonly number[];
}

/** With or without the four bytes `meta` in front. Undefined: not metadata, another version, or damaged. */
export function readMetadata(bytes: Buffer): Metadata | undefined {
  const cursor = new Cursor(bytes, bytes.toString("latin1", 0, 4) === "meta" ? 4 : 0);
  const version = cursor.u8();
  if (version !== 14 && version !== 15) return undefined;
  const types = readTypes(cursor);
  const pallets: Pallet[] = [];
  for (let left = cursor.count(1); left > 0 && !cursor.dead; left--) {
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
  if (cursor.dead || cursor.at !== bytes.length) return undefined;
  const metadata: Metadata = { types, pallets, ...extrinsic };
  return refersWithin(metadata) ? metadata : undefined;
}

function readTypes(cursor: Cursor): TypeDef[] {
  const types: TypeDef[] = [];
  const count = cursor.count(1);
  while (types.length < count && !cursor.dead) {
    // Ids are places: the registry is written in their order.
    if (cursor.compact() !== types.length) cursor.fail();
    types.push(readType(cursor));
  }
  return types;
}

function readType(cursor: Cursor): TypeDef {
  let path = "";
  for (let left = cursor.count(1); left > 0 && !cursor.dead; left--) path = cursor.text();
  const params = readList(cursor, () => ({
    name: cursor.text(),
    type: cursor.option() ? cursor.compact() : undefined,
  }));
  const form = readForm(cursor);
  cursor.skipTexts();
  return { ...form, path, params };
}

function readForm(cursor: Cursor): TypeForm {
  switch (cursor.u8()) {
    case 0:
      return { kind: "composite", fields: readFields(cursor) };
    case 1:
      return { kind: "variant", variants: readVariants(cursor) };
    case 2:
      return { kind: "sequence", of: cursor.compact() };
    case 3: {
      const length = cursor.u32();
      return { kind: "array", length, of: cursor.compact() };
    }
    case 4:
      return { kind: "tuple", of: readList(cursor, () => cursor.compact()) };
    case 5: {
      const name = primitives[cursor.u8()];
      if (name === undefined) cursor.fail();
      return { kind: "primitive", name: name ?? "u8" };
    }
    case 6:
      return { kind: "compact", of: cursor.compact() };
    case 7: {
      const store = cursor.compact();
      // The order of the bits: it does not move a boundary.
      cursor.compact();
      return { kind: "bits", store };
    }
    default:
      cursor.fail();
      return { kind: "tuple", of: [] };
  }
}

function readFields(cursor: Cursor): Field[] {
  return readList(cursor, () => {
    const name = cursor.option() ? cursor.text() : undefined;
    const type = cursor.compact();
    // The name that the type had in the source.
    if (cursor.option()) cursor.skipText();
    cursor.skipTexts();
    return { name, type };
  });
}

function readVariants(cursor: Cursor): (Variant | undefined)[] {
  const variants: (Variant | undefined)[] = [];
  for (let left = cursor.count(1); left > 0 && !cursor.dead; left--) {
    const name = cursor.text();
    const fields = readFields(cursor);
    const index = cursor.u8();
    cursor.skipTexts();
    if (variants[index] !== undefined) cursor.fail();
    while (variants.length < index) variants.push(undefined);
    variants[index] = { name, index, fields };
  }
  return variants;
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
  // The event type: events are read through the one in System.Events.
  if (cursor.option()) cursor.compact();
  const constants = readList(cursor, () => readConstant(cursor));
  if (cursor.option()) cursor.compact();
  const index = cursor.u8();
  if (version === 15) cursor.skipTexts();
  return { name, index, storagePrefix, storage, calls, constants };
}

function readStorageEntry(cursor: Cursor): StorageEntry {
  const name = cursor.text();
  // Whether an absent value reads as none or as the default.
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

/** V14 names one type; its parameters are Address, Call, Signature and Extra. Its version byte is not to be trusted. */
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
  // The type of all extensions together; the list that follows says the same.
  cursor.compact();
  return { address, signature, call, extensions: readExtensions(cursor) };
}

function readExtensions(cursor: Cursor): number[] {
  return readList(cursor, () => {
    cursor.skipText();
    const type = cursor.compact();
    // What is signed beside it, which no extrinsic holds.
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

/** A list of things that take at least a byte each. */
function readList<T>(cursor: Cursor, read: () => T): T[] {
  const list: T[] = [];
  for (let left = cursor.count(1); left > 0 && !cursor.dead; left--) list.push(read());
  return list;
}

/** Whether every id that decoding follows is that of a type. */
function refersWithin({ types, pallets, address, signature, call, extensions }: Metadata): boolean {
  const within = (id: number | undefined): boolean => id === undefined || id < types.length;
  const fieldsWithin = (fields: readonly Field[]): boolean =>
    fields.every((field) => within(field.type));
  return (
    types.every((type) => typeIds(type, fieldsWithin, within)) &&
    pallets.every(
      ({ calls, storage, constants }) =>
        within(calls) &&
        storage.every((entry) => within(entry.key) && within(entry.value)) &&
        constants.every((constant) => within(constant.type)),
    ) &&
    [address, signature, call, ...extensions].every(within)
  );
}

function typeIds(
  type: TypeDef,
  fieldsWithin: (fields: readonly Field[]) => boolean,
  within: (id: number | undefined) => boolean,
): boolean {
  switch (type.kind) {
    case "composite":
      return fieldsWithin(type.fields);
    case "variant":
      return type.variants.every(
        (variant) => variant === undefined || fieldsWithin(variant.fields),
      );
    case "tuple":
      return type.of.every(within);
    case "bits":
      return within(type.store);
    case "primitive":
      return true;
    case "sequence":
    case "array":
    case "compact":
    default:
      return within(type.of);
  }
}
