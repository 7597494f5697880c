/** Imports copies of the modules of leases in which some texts are replaced. The copies exist only in memory. */
import assert from "node:assert/strict";
import { registerHooks } from "node:module";

/** A text of a module, which must occur in it exactly once, and what replaces it. */
export interface Change {
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

const folder = new URL("../../../../plugins/billing/leases/", import.meta.url).href;
const versions: (readonly Change[])[] = [];

function versionOf(url: string | undefined): string | null {
  return url === undefined ? null : new URL(url).searchParams.get("version");
}

registerHooks({
  resolve(specifier, context, nextResolve) {
    const resolved = nextResolve(specifier, context);
    const version = versionOf(context.parentURL);
    if (version === null || !resolved.url.startsWith(folder)) return resolved;
    return { ...resolved, url: `${resolved.url}?version=${version}` };
  },
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context);
    const version = versionOf(url);
    if (version === null || !url.startsWith(folder)) return loaded;
    let source = new TextDecoder().decode(loaded.source as Uint8Array);
    for (const { file, from, to } of versions[Number(version)] ?? []) {
      if (url !== `${folder}${file}?version=${version}`) continue;
      assert.equal(source.split(from).length, 2, `${file} has this text once: ${from}`);
      source = source.replace(from, () => to);
    }
    return { ...loaded, source };
  },
});

export async function importChanged<Module>(
  file: string,
  changes: readonly Change[],
): Promise<Module> {
  const version = versions.push(changes) - 1;
  // The caller names the type of the module.
  return (await import(`${folder}${file}?version=${version}`)) as Module;
}
