/** Flattens lists: `{ use: name }` puts all of a named list in its place. */
import type { PluginUse, StepUse } from "./config.ts";
import { readEntry } from "./entry.ts";
import { fault, type Fault, type Position } from "./fault.ts";
import type { Located } from "./located.ts";
import { nearest } from "./nearest.ts";

interface ExpandedList {
  readonly steps: readonly StepUse[];
  /** Entries with `mode: off`: checked, never run. */
  readonly off: readonly PluginUse[];
  /** Some entry could not be read, so that what the list lacks must not be judged. */
  readonly incomplete: boolean;
}

export interface Expander {
  /** The steps of a `run:` or a list; the same named list always gives the same step objects. */
  expand(entries: Located | undefined): ExpandedList;
  /** All faults found, those of unused lists included where there are routes to use them. Call it last. */
  finish(hasRoutes: boolean): readonly Fault[];
}

const nothing: ExpandedList = { steps: [], off: [], incomplete: false };

/** `lists`: the mapping of that name, or undefined where the file has none. */
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
      faults.push(fault("SLUICE_LIST_UNKNOWN", `there is no list "${name}"`, { at, didYouMean }));
      // Read on with the list that was meant, for the faults that it may hold.
      const meant = didYouMean === undefined ? nothing : expandNamed(didYouMean, at, path);
      return { ...meant, incomplete: true };
    }
    used.add(name);
    if (path.includes(name)) {
      const circle = [...path.slice(path.indexOf(name)), name].join(" uses ");
      faults.push(fault("SLUICE_LIST_CYCLE", `lists use themselves: ${circle}`, { at }));
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
          const message = `no route uses the list "${name}"`;
          faults.push(fault("SLUICE_LIST_UNUSED", message, { at: keyAt }));
        }
        // Read all the same, for the faults inside it.
        if (!done.has(name)) expand(value, [name]);
      }
      return faults;
    },
  };
}
