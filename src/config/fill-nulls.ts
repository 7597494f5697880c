/** Handles keys without a value in the tree, before it is validated. */
import type { Position } from "./fault.ts";
import type { Located, LocatedEntry, LocatedMap } from "./located.ts";

/**
 * A key without a value (all its lines are commented out) is treated as missing. A name without a value is treated as
 * an empty entry. Options of plugins are not changed.
 */
export function fillNulls(root: LocatedMap): void {
  dropOwnNulls(root);
  for (const [key, { value }] of root.entries) {
    if (key === "routes" && value.kind === "list") {
      for (const item of value.items) if (item.kind === "map") dropOwnNulls(item);
    } else if (value.kind === "map" && key !== "plugins") {
      const blank = blanks[key];
      if (blank === undefined) dropNulls(value);
      else for (const [name, entry] of value.entries) fillNamed(value, name, entry, blank);
    }
  }
}

type Blank = (at: Position) => Located;
const emptyMap: Blank = (at) => ({ kind: "map", at, entries: new Map() });
/** The sections with named entries. The function creates the empty entry for a name without a value. */
const blanks: Readonly<Record<string, Blank>> = {
  lists: (at) => ({ kind: "list", at, items: [] }),
  upstreams: emptyMap,
  networks: emptyMap,
};

function fillNamed(parent: LocatedMap, name: string, entry: LocatedEntry, blank: Blank): void {
  const { keyAt, value } = entry;
  if (isNull(value)) parent.entries.set(name, { keyAt, value: blank(keyAt) });
  else dropNulls(value);
}

function isNull(node: Located): boolean {
  return node.kind === "scalar" && node.value === null && !node.broken;
}

function dropNulls(node: Located): void {
  if (node.kind !== "map") return;
  dropOwnNulls(node);
  for (const { value } of node.entries.values()) dropNulls(value);
}

function dropOwnNulls(node: LocatedMap): void {
  for (const [key, { value }] of node.entries) {
    if (isNull(value)) node.entries.delete(key);
  }
}
