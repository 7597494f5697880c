/**
 * The content of pipeline.yaml as a tree in which every key and value has its position. Plain values are made from it.
 */
import { isObject } from "../base/is-object.ts";
import { pointerKeys } from "../base/json-pointer.ts";
import type { Position } from "./fault.ts";

export interface LocatedScalar {
  readonly kind: "scalar";
  readonly at: Position;
  /** `retype` in validate.ts changes it in place to the type that the schema requires. */
  value: string | number | boolean | null;
  /** Keeps the digits of a number for schemas that require a string. */
  readonly source: string;
  /** Whether the value contains environment variables. Messages never show it, because it may be a secret. */
  readonly expanded: boolean;
  /** Whether all variables were replaced by their defaults: `${NAME:-default}` with NAME unset. */
  readonly defaulted?: boolean;
  /** A fault of this value has been reported, so no other must follow. */
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

/** `__proto__` is an ordinary key. */
export function plainValue(node: Located): unknown {
  if (node.kind === "scalar") return node.value;
  if (node.kind === "list") return node.items.map(plainValue);
  return Object.fromEntries(
    [...node.entries].map(([key, entry]) => [key, plainValue(entry.value)]),
  );
}

export function isFullyRead(node: Located): boolean {
  if (node.kind === "scalar") return !node.broken;
  const parts = node.kind === "list" ? node.items : [...node.entries.values()].map((e) => e.value);
  return parts.every(isFullyRead);
}

export function locate(value: unknown, at: Position): Located {
  if (Array.isArray(value)) {
    return { kind: "list", at, items: value.map((item: unknown) => locate(item, at)) };
  }
  if (isObject(value)) {
    const entries = Object.entries(value).map(([key, item]): [string, LocatedEntry] => [
      key,
      { keyAt: at, value: locate(item, at) },
    ]);
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

function child(node: Located, key: string): { node: Located; keyAt: Position } | undefined {
  if (node.kind === "map") {
    const entry = node.entries.get(key);
    return entry && { node: entry.value, keyAt: entry.keyAt };
  }
  if (node.kind !== "list") return undefined;
  const item = node.items[Number(key)];
  return item && { node: item, keyAt: item.at };
}

export function find(node: Located, pointer: string): Located | undefined {
  let found: Located | undefined = node;
  for (const key of pointerKeys(pointer)) {
    if (found === undefined) return undefined;
    found = child(found, key)?.node;
  }
  return found;
}

/** If the value is missing, returns the position of the nearest enclosing key, like `keyPositionOf`. */
export function positionOf(node: Located, pointer: string, own: Position = node.at): Position {
  return walk(node, pointer, own, (part) => part.node.at);
}

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

export function isDefaulted(node: Located): boolean {
  if (node.kind === "scalar") return node.defaulted === true;
  const parts = node.kind === "list" ? node.items : [...node.entries.values()].map((e) => e.value);
  return parts.length > 0 && parts.every(isDefaulted);
}
