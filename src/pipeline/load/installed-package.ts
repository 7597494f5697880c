import { readFileSync, realpathSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { isObject } from "../../base/is-object.ts";

export interface InstalledPackage {
  readonly folder: string;
  readonly name: string;
  readonly version: string;
}

/**
 * Undefined for a module outside of node_modules, which is local code. Without package.json, the folder is the name.
 */
export function packageOf(url: string): InstalledPackage | undefined {
  const found = /^(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(url)?.[1];
  if (found === undefined) return undefined;
  const folder = fileURLToPath(found);
  return packageIn(folder) ?? { folder, name: basename(folder), version: "" };
}

/** Returns whether the folder of a package in node_modules is a link to local code, as `npm link` makes it. */
export function isLinked({ folder }: InstalledPackage): boolean {
  return !`${realpathSync(folder)}/`.includes("/node_modules/");
}

/** Undefined without a package.json that has a name. */
export function packageIn(folder: string): InstalledPackage | undefined {
  let manifest: unknown;
  try {
    manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  } catch {
    return undefined;
  }
  if (!isObject(manifest) || typeof manifest["name"] !== "string") return undefined;
  const { name, version } = manifest;
  return { folder, name, version: typeof version === "string" ? version : "" };
}
