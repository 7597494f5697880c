/** Source: scale-info's `PortableRegistry`. Documentation is skipped. */
import { readList, type Cursor } from "./scale.ts";

export interface Field {
  readonly name: string | undefined;
  readonly type: number;
}

export interface Variant {
  readonly name: string;
  readonly fields: readonly Field[];
}

/** The form of a type. `of`, `type` and `store` are ids of other types, which are indexes of `Metadata.types`. */
export type TypeForm =
  | { readonly kind: "composite"; readonly fields: readonly Field[] }
  /** Each variant is at its index; indexes may be missing. */
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

/** Bytes of the values of each primitive type, in the order of their SCALE tags. Negative if the length differs. */
export const primitiveBytes = {
  bool: 1,
  char: 4,
  str: -1,
  u8: 1,
  u16: 2,
  u32: 4,
  u64: 8,
  u128: 16,
  u256: 32,
  i8: 1,
  i16: 2,
  i32: 4,
  i64: 8,
  i128: 16,
  i256: 32,
} as const;
export type Primitive = keyof typeof primitiveBytes;
// TypeScript does not know that the keys are the names.
const primitives = Object.keys(primitiveBytes) as Primitive[];

export function readTypes(cursor: Cursor): TypeDef[] {
  const types: TypeDef[] = [];
  const count = cursor.count(1);
  while (types.length < count && !cursor.hasFailed) {
    // The registry is in the order of the ids, so each id equals its index.
    if (cursor.compact() !== types.length) cursor.fail();
    types.push(readType(cursor));
  }
  return types;
}

function readType(cursor: Cursor): TypeDef {
  let path = "";
  for (let left = cursor.count(1); left > 0 && !cursor.hasFailed; left--) path = cursor.text();
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
      // The bit order. It does not affect the length.
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
    // The name of the type in the source code.
    if (cursor.option()) cursor.skipText();
    cursor.skipTexts();
    return { name, type };
  });
}

function readVariants(cursor: Cursor): (Variant | undefined)[] {
  const variants: (Variant | undefined)[] = [];
  for (let left = cursor.count(1); left > 0 && !cursor.hasFailed; left--) {
    const name = cursor.text();
    const fields = readFields(cursor);
    const index = cursor.u8();
    cursor.skipTexts();
    if (variants[index] !== undefined) cursor.fail();
    while (variants.length < index) variants.push(undefined);
    variants[index] = { name, fields };
  }
  return variants;
}

export function everyTypeId(type: TypeDef, within: (id: number | undefined) => boolean): boolean {
  const fieldsWithin = (fields: readonly Field[]): boolean =>
    fields.every((field) => within(field.type));
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
