/**
 * Converts SCALE bytes to readable JSON values, for the summary that a person confirms before a transaction is sent,
 * and for the few fields of an account. Integers become decimal strings, bytes become hex, and accounts become
 * addresses. An enum becomes `{ Variant: … }`, or its name if it has no fields. A call becomes `{ pallet, method, args
 * }`. The size is limited; `…` marks the place of what was cut.
 */
import type { Runtime } from "./runtime.ts";
import { broken, compactResult, readCompact, skipCompact } from "./scale.ts";
import { addressOf } from "./ss58.ts";
import {
  primitiveBytes,
  type Field,
  type Primitive,
  type TypeDef,
  type Variant,
} from "./type-registry.ts";

const ellipsis = "…";
/** Maximum number of values in one answer. More values, or values that are nested deeper, are cut. */
const maxValues = 2000;
const maxNesting = 48;
const maxShownBytes = 256;

/** Reads values in order. After a cut, the start of the next value is unknown, and every further value is `…`. */
export class ValueReader {
  readonly #runtime: Runtime;
  readonly #types: readonly TypeDef[];
  readonly #bytes: Buffer;
  readonly #ss58Prefix: number;
  #at: number;
  #values = 0;
  #cut = false;

  constructor(runtime: Runtime, bytes: Buffer, at: number, ss58Prefix: number) {
    this.#runtime = runtime;
    this.#types = runtime.metadata.types;
    this.#bytes = bytes;
    this.#at = at;
    this.#ss58Prefix = ss58Prefix;
  }

  /** True if everything up to the last byte was read and shown. */
  get complete(): boolean {
    return !this.#cut && this.#at === this.#bytes.length;
  }

  read(type: number, nesting = 0): unknown {
    const def = this.#types[type];
    if (def === undefined || nesting > maxNesting || ++this.#values > maxValues) this.#cut = true;
    if (this.#cut || def === undefined) return ellipsis;
    switch (def.kind) {
      case "composite":
        return this.#composite(def, type, nesting);
      case "tuple":
        return def.of.map((of) => this.read(of, nesting + 1));
      case "variant":
        return this.#variant(def, type, nesting);
      case "sequence":
        return this.#many(def.of, this.#count(), nesting);
      case "array":
        return this.#many(def.of, def.length, nesting);
      case "primitive":
        return this.#primitive(def.name);
      case "compact":
        return this.#compact();
      case "bits":
      default:
        return this.#skipped(type);
    }
  }

  /** Returns an object if the fields have names, the value of a single unnamed field, or else an array. */
  fields(fields: readonly Field[], nesting: number): unknown {
    const [first, second] = fields;
    if (first?.name !== undefined) return this.named(fields, nesting);
    if (first !== undefined && second === undefined) return this.read(first.type, nesting + 1);
    return fields.map((field) => this.read(field.type, nesting + 1));
  }

  named(fields: readonly Field[], nesting: number): Record<string, unknown> {
    const entries: [string, unknown][] = [];
    for (const [i, { name, type }] of fields.entries()) {
      entries.push([name ?? String(i), this.read(type, nesting + 1)]);
    }
    return Object.fromEntries(entries);
  }

  #composite(def: TypeDef & { kind: "composite" }, type: number, nesting: number): unknown {
    const isAccount = def.path === "AccountId32" || def.path === "AccountId20";
    const width = isAccount || def.path === "H160" ? this.#runtime.shapes.width(type) : undefined;
    if (width === 32 || width === 20) {
      const id = this.#take(width);
      return id === undefined ? ellipsis : addressOf(id, this.#ss58Prefix);
    }
    return this.fields(def.fields, nesting);
  }

  #variant(def: TypeDef & { kind: "variant" }, type: number, nesting: number): unknown {
    const index = this.#take(1)?.[0];
    const variant: Variant | undefined = index === undefined ? undefined : def.variants[index];
    if (variant === undefined) return this.#stop();
    if (type === this.#runtime.metadata.call) return this.#call(index ?? 0, nesting);
    const { name, fields } = variant;
    if (def.path === "Option" && name === "None") return null;
    if (def.path === "Option") return this.fields(fields, nesting);
    if (fields.length === 0) return name;
    return { [name]: this.fields(fields, nesting) };
  }

  #call(pallet: number, nesting: number): unknown {
    const index = this.#take(1)?.[0];
    const entry = index === undefined ? undefined : this.#runtime.call(pallet, index);
    if (entry === undefined) return this.#stop();
    const { name: method, fields } = entry.variant;
    return { pallet: entry.pallet?.name, method, args: this.named(fields, nesting) };
  }

  #many(of: number, count: number, nesting: number): unknown {
    const element = this.#types[of];
    if (element?.kind === "primitive" && element.name === "u8") return this.#hex(count);
    const values: unknown[] = [];
    for (let left = count; left > 0; left--) {
      values.push(this.read(of, nesting + 1));
      if (this.#cut) break;
    }
    return values;
  }

  #primitive(name: Primitive): unknown {
    if (name === "bool") return this.#take(1)?.[0] === 1;
    if (name === "char") return charOf(this.#take(4)?.readUInt32LE(0) ?? 0);
    if (name !== "str") return this.#integer(primitiveBytes[name], name.startsWith("i"));
    const text = this.#take(this.#count());
    if (text === undefined) return ellipsis;
    const shown = text.toString("utf8", 0, maxShownBytes);
    return text.length > maxShownBytes ? `${shown}${ellipsis}` : shown;
  }

  #integer(width: number, signed: boolean): unknown {
    const bytes = this.#take(width);
    if (bytes === undefined) return ellipsis;
    const value = littleEndian(bytes);
    return (signed ? BigInt.asIntN(8 * width, value) : value).toString();
  }

  #compact(): unknown {
    const start = this.#at;
    const bytes = this.#bytes;
    const next = skipCompact(bytes, start, bytes.length, 32);
    if (next === broken) return this.#stop();
    this.#at = next;
    if (((bytes[start] ?? 0) & 3) === 3)
      return littleEndian(bytes.subarray(start + 1, next)).toString();
    return readCompact(bytes, start, bytes.length) ? String(compactResult.value) : this.#stop();
  }

  #hex(length: number): string {
    const bytes = this.#take(length);
    if (bytes === undefined) return ellipsis;
    return `0x${bytes.toString("hex", 0, maxShownBytes)}${length > maxShownBytes ? ellipsis : ""}`;
  }

  #skipped(type: number): string {
    const next = this.#runtime.skip(type, this.#bytes, this.#at);
    return next === broken ? this.#stop() : this.#hex(next - this.#at);
  }

  #count(): number {
    if (!readCompact(this.#bytes, this.#at, this.#bytes.length)) {
      this.#cut = true;
      return 0;
    }
    this.#at = compactResult.next;
    return compactResult.value;
  }

  #take(length: number): Buffer | undefined {
    const next = this.#at + length;
    if (this.#cut || next > this.#bytes.length) {
      this.#cut = true;
      return undefined;
    }
    const taken = this.#bytes.subarray(this.#at, next);
    this.#at = next;
    return taken;
  }

  #stop(): string {
    this.#cut = true;
    return ellipsis;
  }
}

function charOf(code: number): string {
  return code <= 0x10ffff ? String.fromCodePoint(code) : ellipsis;
}

function littleEndian(bytes: Buffer): bigint {
  const hex = Buffer.from(bytes.toReversed()).toString("hex");
  return hex === "" ? 0n : BigInt(`0x${hex}`);
}
