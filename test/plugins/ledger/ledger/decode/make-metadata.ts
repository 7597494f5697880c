/** Writes metadata V14 for runtimes that no recorded chain has: unusual types, extensions and accounts. */

/** Type ids are positions in `types`. */
export type MadeType =
  | { readonly composite: readonly MadeField[]; readonly path?: string }
  | { readonly variant: readonly MadeVariant[]; readonly path?: string }
  | { readonly sequence: number }
  | { readonly array: number; readonly length: number }
  | { readonly tuple: readonly number[] }
  /** Its SCALE tag: 0 bool, 2 str, 3 u8, 4 u16, 5 u32, 6 u64, 7 u128. */
  | { readonly primitive: number }
  | { readonly compact: number }
  | { readonly bits: number };

type MadeField = readonly [name: string | undefined, type: number];
type MadeVariant = readonly [index: number, name: string, fields: readonly MadeField[]];

export interface MadePallet {
  readonly name: string;
  readonly index: number;
  readonly calls?: number;
  /** Name, hasher tag and key type for a map, type of the value. */
  readonly storage?: readonly (readonly [
    string,
    { hasher: number; key: number } | undefined,
    number,
  ])[];
}

export interface MadeRuntime {
  readonly types: readonly MadeType[];
  readonly pallets: readonly MadePallet[];
  /** Type ids of Address, Call, Signature and Extra in the extrinsic type, which is written after `types`. */
  readonly extrinsic?: { address: number; call: number; signature: number; extra: number };
  readonly extensions?: readonly number[];
}

export function compactBytes(n: number): Buffer {
  if (n < 1 << 6) return Buffer.from([n << 2]);
  if (n < 1 << 14) return Buffer.from([((n << 2) & 255) | 1, n >> 6]);
  const four = Buffer.alloc(4);
  four.writeUInt32LE(((n << 2) | 2) >>> 0);
  return four;
}

const text = (value: string): Buffer =>
  Buffer.concat([compactBytes(Buffer.byteLength(value)), Buffer.from(value)]);
const list = (items: readonly Buffer[]): Buffer =>
  Buffer.concat([compactBytes(items.length), ...items]);
const none = Buffer.from([0]);
const some = (value: Buffer): Buffer => Buffer.concat([Buffer.from([1]), value]);
const option = (value: Buffer | undefined): Buffer => (value === undefined ? none : some(value));

const field = ([name, type]: MadeField): Buffer =>
  Buffer.concat([
    option(name === undefined ? undefined : text(name)),
    compactBytes(type),
    none,
    none,
  ]);

function form(type: MadeType): Buffer[] {
  if ("composite" in type) return [Buffer.from([0]), list(type.composite.map(field))];
  if ("variant" in type) {
    const variants = type.variant.map(([index, name, fields]) =>
      Buffer.concat([text(name), list(fields.map(field)), Buffer.from([index]), none]),
    );
    return [Buffer.from([1]), list(variants)];
  }
  if ("sequence" in type) return [Buffer.from([2]), compactBytes(type.sequence)];
  if ("array" in type) {
    const length = Buffer.alloc(4);
    length.writeUInt32LE(type.length);
    return [Buffer.from([3]), length, compactBytes(type.array)];
  }
  if ("tuple" in type) return [Buffer.from([4]), list(type.tuple.map(compactBytes))];
  if ("primitive" in type) return [Buffer.from([5, type.primitive])];
  if ("compact" in type) return [Buffer.from([6]), compactBytes(type.compact)];
  return [Buffer.from([7]), compactBytes(type.bits), compactBytes(type.bits)];
}

function pallet({ name, index, calls, storage }: MadePallet): Buffer {
  const entries = (storage ?? []).map(([entry, map, value]) => {
    const kind =
      map === undefined
        ? [Buffer.from([0]), compactBytes(value)]
        : [
            Buffer.from([1]),
            list([Buffer.from([map.hasher])]),
            compactBytes(map.key),
            compactBytes(value),
          ];
    return Buffer.concat([text(entry), Buffer.from([0]), ...kind, none, none]);
  });
  const stored = storage === undefined ? undefined : Buffer.concat([text(name), list(entries)]);
  const called = calls === undefined ? undefined : compactBytes(calls);
  return Buffer.concat([
    text(name),
    option(stored),
    option(called),
    none,
    none,
    none,
    Buffer.from([index]),
  ]);
}

/** With the magic number. */
export function makeMetadata({ types, pallets, extrinsic, extensions = [] }: MadeRuntime): Buffer {
  const written = types.map((type, id) => {
    const path = "path" in type && type.path !== undefined ? [text(type.path)] : [];
    return Buffer.concat([compactBytes(id), list(path), none, ...form(type), none]);
  });
  const params = Object.entries(extrinsic ?? {}).map(([name, type]) =>
    Buffer.concat([text(name[0]?.toUpperCase() + name.slice(1)), some(compactBytes(type))]),
  );
  const last = types.length;
  written.push(
    Buffer.concat([compactBytes(last), none, list(params), ...form({ tuple: [] }), none]),
  );
  return Buffer.concat([
    Buffer.from("meta"),
    Buffer.from([14]),
    list(written),
    list(pallets.map(pallet)),
    compactBytes(last),
    Buffer.from([4]),
    list(
      extensions.map((type) =>
        Buffer.concat([text("Ext"), compactBytes(type), compactBytes(last)]),
      ),
    ),
    compactBytes(last),
  ]);
}
