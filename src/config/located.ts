/**
 * The content of pipeline.yaml as a tree in which every key and value knows where it was written. Everything that
 * reports a fault works on this tree; plain values are made from it.
 */
import type { Position } from "./fault.ts";

export interface LocatedScalar {
  readonly kind: "scalar";
  readonly at: Position;
  /** Changed in place when the schema wants another type than YAML read: see `retype` in validate.ts. */
  value: string | number | boolean | null;
  /** As written, after expansion: keeps the digits of a number that turns out to be wanted as text. */
  readonly source: string;
  /** The environment took part in it: never shown in a message (it may be a secret), and re-typed on demand. */
  readonly expanded: boolean;
  /** The environment took part in it by defaults alone: `${NAME:-default}` with NAME unset. */
  readonly defaulted?: boolean;
  /** A fault about it is reported already; no other is to follow. */
  readonly broken: boolean;
}

interface LocatedList {
  readonly kind: "list";
  readonly at: Position;
  readonly items: Located[];
}

export interface LocatedEntry {
  readonly keyAt: Position;
  readonly value: Located;
}

export interface LocatedMap {
  readonly kind: "map";
  readonly at: Position;
  readonly entries: Map<string, LocatedEntry>;
}

export type Located = LocatedScalar | LocatedList | LocatedMap;

/** The plain value. `__proto__` is an ordinary key of it. */
export function plainValue(node: Located): unknown {
  if (node.kind === "scalar") return node.value;
  if (node.kind === "list") return node.items.map(plainValue);
  return Object.fromEntries(
    [...node.entries].map(([key, entry]) => [key, plainValue(entry.value)]),
  );
}

/** Whether everything in it could be read. */
export function isWhole(node: Located): boolean {
  if (node.kind === "scalar") return !node.broken;
  const parts = node.kind === "list" ? node.items : [...node.entries.values()].map((e) => e.value);
  return parts.every(isWhole);
}

/** A tree for a value that was made in code: every part of it stands at the same place. */
export function locate(value: unknown, at: Position): Located {
  if (Array.isArray(value)) {
    return { kind: "list", at, items: value.map((item: unknown) => locate(item, at)) };
  }
  if (typeof value === "object" && value !== null) {
    const entries = Object.entries(value).map(
      ([key, item]: [string, unknown]): [string, LocatedEntry] => [
        key,
        { keyAt: at, value: locate(item, at) },
      ],
    );
    return { kind: "map", at, entries: new Map(entries) };
  }
  const scalar =
    typeof value === "string" || typeof value === "number" || typeof value === "boolean"
      ? value
      : null;
  return {
    kind: "scalar",
    at,
    value: scalar,
    source: String(value),
    expanded: false,
    broken: false,
  };
}

/** A JSON Pointer (RFC 6901) as its keys. */
export function pointerKeys(pointer: string): string[] {
  if (pointer === "") return [];
  return pointer
    .slice(1)
    .split("/")
    .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function child(node: Located, key: string): { node: Located; keyAt: Position } | undefined {
  if (node.kind === "map") {
    const entry = node.entries.get(key);
    return entry && { node: entry.value, keyAt: entry.keyAt };
  }
  if (node.kind !== "list") return undefined;
  const item = node.items[Number(key)];
  return item && { node: item, keyAt: item.at };
}

/** The part at a JSON Pointer. */
export function find(node: Located, pointer: string): Located | undefined {
  let found: Located | undefined = node;
  for (const key of pointerKeys(pointer)) {
    if (found === undefined) return undefined;
    found = child(found, key)?.node;
  }
  return found;
}

/** Where the value at a JSON Pointer stands; for what is absent, the key of the nearest part around it. */
export function positionOf(node: Located, pointer: string, own: Position = node.at): Position {
  return walk(node, pointer, own, (part) => part.node.at);
}

/** Where the key at a JSON Pointer stands, an item of a list, or what is nearest around it. */
export function keyPositionOf(node: Located, pointer: string, own: Position = node.at): Position {
  return walk(node, pointer, own, (part) => part.keyAt);
}

function walk(
  node: Located,
  pointer: string,
  own: Position,
  chosen: (part: { node: Located; keyAt: Position }) => Position,
): Position {
  let part = { node, keyAt: own };
  for (const key of pointerKeys(pointer)) {
    const next = child(part.node, key);
    if (next === undefined) return part.keyAt;
    part = next;
  }
  return part.node === node ? own : chosen(part);
}

/** Whether every scalar in it comes from the default of a variable that is not set. */
export function isDefaulted(node: Located): boolean {
  if (node.kind === "scalar") return node.defaulted === true;
  const parts = node.kind === "list" ? node.items : [...node.entries.values()].map((e) => e.value);
  return parts.length > 0 && parts.every(isDefaulted);
}
