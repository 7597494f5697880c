import type { PluginUse, StepUse } from "./config.ts";
import { readEntry } from "./entry.ts";
import { fault, type Fault, type Position } from "./fault.ts";
import type { Located } from "./located.ts";
import { nearest } from "./nearest.ts";

interface ExpandedList {
  readonly steps: readonly StepUse[];
  /** Entries with `mode: off` are checked, but never run. */
  readonly off: readonly PluginUse[];
  /** An entry could not be read, so missing steps must not be reported. */
  readonly incomplete: boolean;
}

export interface Expander {
  /** The same named list always returns the same step objects. */
  expand(entries: Located | undefined): ExpandedList;
  /** Must be called last. Unused lists are reported only if there are routes. */
  finish(hasRoutes: boolean): readonly Fault[];
}

const nothing: ExpandedList = { steps: [], off: [], incomplete: false };

export function createExpander(lists: Located | undefined): Expander {
  const named = lists?.kind === "map" ? lists.entries : new Map<string, never>();
  const faults: Fault[] = [];
  const done = new Map<string, ExpandedList>();
  const used = new Set<string>();

  function expand(entries: Located | undefined, path: readonly string[]): ExpandedList {
    if (entries?.kind !== "list") return nothing;
    const parts = entries.items.map((item): ExpandedList => {
      const entry = readEntry(item, faults);
      if (entry.kind === "use") return expandNamed(entry.list, entry.at, path);
      if (entry.kind === "unreadable") return { ...nothing, incomplete: true };
      if (entry.kind === "off") return { ...nothing, off: [entry.use] };
      return { ...nothing, steps: [entry.step] };
    });
    return {
      steps: parts.flatMap((part) => part.steps),
      off: parts.flatMap((part) => part.off),
      incomplete: parts.some((part) => part.incomplete),
    };
  }

  function expandNamed(name: string, at: Position, path: readonly string[]): ExpandedList {
    const list = named.get(name);
    if (list === undefined) {
      const didYouMean = nearest(name, named.keys());
      faults.push(fault("SLUICE_LIST_UNKNOWN", `unknown list "${name}"`, { at, didYouMean }));
      const meant = didYouMean === undefined ? nothing : expandNamed(didYouMean, at, path);
      return { ...meant, incomplete: true };
    }
    used.add(name);
    if (path.includes(name)) {
      const circle = [...path.slice(path.indexOf(name)), name].join(" → ");
      faults.push(fault("SLUICE_LIST_CYCLE", `lists use each other in a cycle: ${circle}`, { at }));
      return { ...nothing, incomplete: true };
    }
    const known = done.get(name);
    if (known !== undefined) return known;
    const expanded = expand(list.value, [...path, name]);
    done.set(name, expanded);
    return expanded;
  }

  return {
    expand: (entries) => expand(entries, []),
    finish(hasRoutes) {
      for (const [name, { keyAt, value }] of named) {
        if (used.has(name)) continue;
        if (hasRoutes) {
          const message = `unused list "${name}"`;
          faults.push(fault("SLUICE_LIST_UNUSED", message, { at: keyAt }));
        }
        // The unused list is read, too, to find the faults in it.
        if (!done.has(name)) expand(value, [name]);
      }
      return faults;
    },
  };
}
