import { isObject } from "../base/is-object.ts";
import type { JsonSchema } from "../plugin.ts";
import type { Position } from "./fault.ts";
import type { Located, LocatedMap } from "./located.ts";

/**
 * A key without a value (all its lines are commented out) is treated as missing. In a section whose schema maps any
 * names to mappings or lists, it is treated as an empty entry. Options of plugins are not changed.
 */
export function fillNulls(root: LocatedMap, schema: JsonSchema): void {
  dropOwnNulls(root);
  for (const [key, { value }] of root.entries) {
    if (key === "routes" && value.kind === "list") {
      for (const item of value.items) if (item.kind === "map") dropOwnNulls(item);
    } else if (value.kind === "map") {
      const named = member(member(member(schema, "properties"), key), "additionalProperties");
      if (isObject(named)) fillEntries(value, named["type"]);
      else dropNulls(value);
    }
  }
}

function member(schema: unknown, key: string): unknown {
  return isObject(schema) ? schema[key] : undefined;
}

/** `type`: the type of the entries of a section. Scalars must have a value. */
function fillEntries(section: LocatedMap, type: unknown): void {
  for (const [name, { keyAt, value }] of section.entries) {
    if (!isNull(value)) dropNulls(value);
    else if (type === "array") section.entries.set(name, { keyAt, value: emptyList(keyAt) });
    else if (type === "object") section.entries.set(name, { keyAt, value: emptyMap(keyAt) });
  }
}

const emptyList = (at: Position): Located => ({ kind: "list", at, items: [] });
const emptyMap = (at: Position): Located => ({ kind: "map", at, entries: new Map() });

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
