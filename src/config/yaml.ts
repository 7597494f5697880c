/** Makes the located tree of a file from its YAML: expands variables, and adds the file to each position. */
import { expandText, type Environment } from "./environment.ts";
import type { Fault, Position } from "./fault.ts";
import type { Located, LocatedEntry } from "./located.ts";
import type { YamlPlace, YamlTree } from "./parse-yaml.ts";

export function locateYaml(
  tree: YamlTree,
  file: string,
  env: Environment,
): { root: Located; faults: readonly Fault[] } {
  const faults: Fault[] = [];
  return { root: locate(tree), faults };

  function locate(node: YamlTree): Located {
    const at = position(node);
    if ("items" in node) {
      const items = node.items.map(locate).filter((item) => !isNothing(item));
      return { kind: "list", at, items };
    }
    if ("entries" in node) {
      const entries = new Map<string, LocatedEntry>();
      for (const [key, keyPlace, of] of node.entries) {
        const value = locate(of);
        if (entries.has(key) || isNothing(value)) continue;
        entries.set(key, { keyAt: position(keyPlace), value });
      }
      return { kind: "map", at, entries };
    }
    const { value, source = String(value), isBroken: broken = false } = node;
    if (typeof value !== "string") {
      return { kind: "scalar", at, value, source, expanded: false, broken };
    }
    const { text, expanded, defaulted, faults: found } = expandText(value, env, at);
    faults.push(...found);
    const isFaulty = found.length > 0;
    return { kind: "scalar", at, value: text, source: text, expanded, defaulted, broken: isFaulty };
  }

  function position({ line, col }: YamlPlace): Position {
    return { file, line, col };
  }
}

/** A value that expands to nothing counts as missing: `redis: ${REDIS_URL:-}` does not set `redis`. */
function isNothing(node: Located): boolean {
  return node.kind === "scalar" && node.expanded && !node.broken && node.value === "";
}
