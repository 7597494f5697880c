import { dirname } from "node:path";
import { fileURLToPath } from "node:url";

/** `at run (file:///app/plugins/acme.ts:10:5)`, with or without a function, as a URL or a path. */
const frame = /^\s+at (?:.*\()?(.+?):\d+:\d+\)?$/gm;

/**
 * Returns the plugin whose code is nearest to the top of `stack`. The code of a plugin is its module, the files in the
 * same folder or below it if no other plugin has that folder, and the rest of its package. `modules`: plugin names by
 * file. `core`: a file of Sluice, whose package is not a plugin itself.
 */
export function pluginOfStack(
  stack: string,
  modules: ReadonlyMap<string, string>,
  core: string = import.meta.filename,
): string | undefined {
  const folders = Map.groupBy(modules, ([file]) => dirname(file));
  const packages = new Map([...modules].map(([file, name]) => [packageOf(file), name]));
  packages.delete(packageOf(core));
  for (const [, place = ""] of stack.matchAll(frame)) {
    const file = pathOf(place);
    const owners = [...folders].filter(([folder]) => isWithin(file, folder));
    const [, owner] = owners.toSorted(([a], [b]) => b.length - a.length)[0] ?? [];
    const ofFolder = owner?.length === 1 ? owner[0]?.[1] : undefined;
    const name = modules.get(file) ?? ofFolder ?? packages.get(packageOf(file) ?? "");
    if (name !== undefined) return name;
  }
  return undefined;
}

function pathOf(place: string): string {
  try {
    return place.startsWith("file:") ? fileURLToPath(place) : place;
  } catch {
    return place;
  }
}

/** Returns true if a file is in a folder or below it, and not in a package that is installed there. */
function isWithin(file: string, folder: string): boolean {
  if (!file.startsWith(`${folder}/`)) return false;
  return !file.slice(folder.length).includes("/node_modules/");
}

function packageOf(file: string): string | undefined {
  return /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+\//.exec(file)?.[0];
}
