/**
 * Finds the end of values. Each type is compiled at its first use to a shape, which describes only its length: adjacent
 * parts of fixed width become one number, and a newtype becomes the type that it wraps. Skipping a value then reads
 * only the few bytes that decide its length (compact integers, variant indexes) and creates no values.
 *
 * The work is bounded for any input: each part that is visited takes at least one byte, and nesting is limited to
 * `maxDepth`.
 */
import { primitiveBytes, type Field, type TypeDef } from "./type-registry.ts";
import { broken, compactResult, readCompact, skipCompact } from "./scale.ts";

/** The ways to determine the length of a value (`Shape.op`). */
const op = {
  /** `size` bytes. */
  fixed: 0,
  /** The `parts`, one after the other. */
  parts: 1,
  /** One byte that selects one of `cases`. */
  choice: 2,
  /** A compact count, followed by that many values of `of`. */
  sequence: 3,
  /** `size` values of `of`, which has no fixed width. */
  array: 4,
  /** A compact integer of at most `size` bytes. */
  compact: 5,
  /** A compact count of bits, stored in words of `size` bytes. */
  bits: 6,
  /** An era: the validity period of a signature. */
  era: 7,
} as const;

export interface Shape {
  op: (typeof op)[keyof typeof op];
  size: number;
  parts: readonly Shape[];
  cases: readonly (Shape | undefined)[];
  of: Shape | undefined;
}

/** Maximum nesting. polkadot-sdk decodes at most 256 levels of calls, each of which takes up to four levels here. */
const maxDepth = 1024;

const shapeOf = (code: Shape["op"], size: number, parts: readonly Shape[] = []): Shape => ({
  op: code,
  size,
  parts,
  cases: [],
  of: undefined,
});
const empty = shapeOf(op.fixed, 0);
const byte = shapeOf(op.fixed, 1);
/** Never matches. Used for types without valid values. */
const impossible = shapeOf(op.fixed, Number.POSITIVE_INFINITY);

export class Shapes {
  readonly #types: readonly TypeDef[];
  readonly #shapes: (Shape | undefined)[] = [];
  readonly #open = new Set<Shape>();

  constructor(types: readonly TypeDef[]) {
    this.#types = types;
  }

  of(type: number): Shape {
    return this.#compile(type, 0);
  }

  ofAll(types: readonly number[]): Shape {
    return this.#sum(types, 0);
  }

  ofFields(fields: readonly Field[], depth = 0): Shape {
    const types = fields.map(({ type }) => type);
    return this.#sum(types, depth);
  }

  /** Undefined if the values of the type have different lengths. */
  width(type: number): number | undefined {
    const shape = this.of(type);
    return shape.op === op.fixed ? shape.size : undefined;
  }

  #compile(type: number, depth: number): Shape {
    const done = this.#shapes[type];
    if (done !== undefined) return done;
    const def = this.#types[type];
    if (def === undefined || depth > maxDepth) return impossible;
    // A type may contain itself. Inner references get this object, which is filled in afterwards.
    const shape = shapeOf(op.parts, 0);
    this.#shapes[type] = shape;
    this.#open.add(shape);
    Object.assign(shape, this.#make(def, depth + 1));
    this.#open.delete(shape);
    return shape;
  }

  #make(def: TypeDef, depth: number): Shape {
    switch (def.kind) {
      case "composite":
        return this.ofFields(def.fields, depth);
      case "tuple":
        return this.#sum(def.of, depth);
      case "variant":
        return isEra(def) ? shapeOf(op.era, 0) : this.#choice(def, depth);
      case "primitive": {
        const width = primitiveBytes[def.name];
        return width < 0 ? { ...shapeOf(op.sequence, 0), of: byte } : shapeOf(op.fixed, width);
      }
      case "sequence":
        return { ...shapeOf(op.sequence, 0), of: this.#compile(def.of, depth) };
      case "array":
        return this.#array(this.#compile(def.of, depth), def.length);
      case "compact":
        return this.#compact(this.#compile(def.of, depth));
      case "bits":
      default: {
        const store = this.#compile(def.store, depth);
        return store.op === op.fixed && [1, 2, 4, 8].includes(store.size)
          ? shapeOf(op.bits, store.size)
          : impossible;
      }
    }
  }

  #choice(def: TypeDef & { kind: "variant" }, depth: number): Shape {
    const cases = def.variants.map((variant) => variant && this.ofFields(variant.fields, depth));
    return { ...shapeOf(op.choice, 0), cases };
  }

  #array(of: Shape, length: number): Shape {
    if (of.op === op.fixed) return shapeOf(op.fixed, of.size === 0 ? 0 : of.size * length);
    return length === 0 ? empty : { ...shapeOf(op.array, length), of };
  }

  #compact(of: Shape): Shape {
    if (of.op !== op.fixed) return impossible;
    return of.size === 0 ? empty : shapeOf(op.compact, of.size);
  }

  /** Merges adjacent parts of fixed width. If only one part remains, that part is the result. */
  #sum(types: readonly number[], depth: number): Shape {
    const parts: Shape[] = [];
    let fixed = 0;
    for (const type of types) {
      const shape = this.#compile(type, depth);
      if (shape.op === op.fixed) {
        fixed += shape.size;
        continue;
      }
      if (fixed > 0) parts.push(shapeOf(op.fixed, fixed));
      fixed = 0;
      parts.push(shape);
    }
    if (parts.length === 0) return fixed === 0 ? empty : shapeOf(op.fixed, fixed);
    if (fixed > 0) parts.push(shapeOf(op.fixed, fixed));
    const [only] = parts;
    if (only !== undefined && parts.length === 1 && !this.#open.has(only)) return only;
    return shapeOf(op.parts, 0, parts);
  }
}

/** Returns the offset after the value that starts at `at`, or `broken`. Reads nothing at or after `end`. */
export function skip(shape: Shape, bytes: Uint8Array, at: number, end: number, depth = 0): number {
  if (depth > maxDepth) return broken;
  switch (shape.op) {
    case op.fixed:
      return at + shape.size <= end ? at + shape.size : broken;
    case op.parts: {
      let next = at;
      for (const part of shape.parts) {
        next = skip(part, bytes, next, end, depth + 1);
        if (next === broken) return broken;
      }
      return next;
    }
    case op.choice: {
      const picked = at < end ? shape.cases[bytes[at] ?? 0] : undefined;
      return picked === undefined ? broken : skip(picked, bytes, at + 1, end, depth + 1);
    }
    case op.sequence:
      return readCompact(bytes, at, end) && shape.of !== undefined
        ? skipMany(shape.of, compactResult.value, bytes, compactResult.next, end, depth + 1)
        : broken;
    case op.array:
      return shape.of === undefined
        ? broken
        : skipMany(shape.of, shape.size, bytes, at, end, depth + 1);
    case op.compact:
      return skipCompact(bytes, at, end, shape.size);
    case op.era:
      return skipEra(bytes, at, end);
    case op.bits:
    default: {
      if (!readCompact(bytes, at, end)) return broken;
      const next =
        compactResult.next + Math.ceil(compactResult.value / (8 * shape.size)) * shape.size;
      return next <= end ? next : broken;
    }
  }
}

function skipMany(
  of: Shape,
  count: number,
  bytes: Uint8Array,
  at: number,
  end: number,
  depth: number,
): number {
  if (of.op === op.fixed) {
    const next = of.size === 0 ? at : at + of.size * count;
    return next <= end ? next : broken;
  }
  // Each element that is not of fixed width takes at least one byte.
  if (count > end - at) return broken;
  let next = at;
  for (let left = count; left > 0; left--) {
    next = skip(of, bytes, next, end, depth);
    if (next === broken) return broken;
  }
  return next;
}

/** In metadata, `generic::Era` has one variant per first byte, each with a second byte. */
function isEra({ path, variants }: TypeDef & { kind: "variant" }): boolean {
  return path === "Era" && variants[0]?.name === "Immortal" && variants[255]?.name === "Mortal255";
}

/** Skips an era like sp_runtime's `Era::decode`: a zero byte, or two bytes with a period and a phase within it. */
function skipEra(bytes: Uint8Array, at: number, end: number): number {
  const first = bytes[at] ?? 0;
  if (at >= end) return broken;
  if (first === 0) return at + 1;
  if (at + 2 > end) return broken;
  const second = bytes[at + 1] ?? 0;
  const period = 2 << (first % 16);
  const phase = ((first | (second << 8)) >> 4) * Math.max(period >> 12, 1);
  return period >= 4 && phase < period ? at + 2 : broken;
}
