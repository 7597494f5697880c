/**
 * Reloads the code of local plugins, which pipeline.yaml names by a path, and of the modules that they import.
 *
 * Node keeps every loaded module under its URL. To run the code on disk after a reload, a module that has changed and
 * all modules that import it are imported under a URL with a new query. Modules that have not changed keep their URL
 * and therefore their state. Old versions stay in memory until the process ends, because Node cannot unload them.
 *
 * Exchanges of the old generation may import a module after the reload. The import then resolves to the version that
 * belongs to the importing module. If that version has never been loaded, Node loads the file as it is on disk now.
 */
import { statSync } from "node:fs";
import { registerHooks, type ResolveHookSync } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";
import { packageFile } from "../../base/package-files.ts";
import { packageOf } from "./installed-package.ts";

interface LocalModule {
  /** Changes when the file changes. */
  stamp: string;
  /** The versions of the module so far, in ascending order. Version 0 has the plain URL. */
  readonly versions: number[];
  /** The module is CommonJS. Node keeps it by file name, so only a restart loads it again. */
  isFixed: boolean;
  readonly importers: Set<string>;
}

const modules = new Map<string, LocalModule>();
/** Versions of packages at the time when their plugins were loaded, by the URL of the module. */
const packageVersions = new Map<string, string>();
let lastVersion = 0;
let isHooked = false;

const ownFolders = ["src/", "plugins/"].map((folder) => pathToFileURL(packageFile(folder)).href);

function isOwn(url: string): boolean {
  return ownFolders.some((folder) => url.startsWith(folder));
}

function isLocal(url: string): boolean {
  return url.startsWith("file:") && !url.includes("/node_modules/") && !isOwn(url);
}

export function currentUrl(url: string): string {
  if (isOwn(url)) return url;
  if (!isLocal(url)) {
    if (!packageVersions.has(url)) packageVersions.set(url, packageVersion(url));
    return url;
  }
  if (!isHooked) registerHooks({ resolve });
  isHooked = true;
  return versioned(url, track(url, false), lastVersion);
}

/** Makes the next load import the module again even if its file does not change, after an import that failed. */
export function importAgain(url: string): void {
  const module = modules.get(url);
  if (module !== undefined) module.stamp = "";
}

/** Returns the paths of the module at `url` and of the local modules that it has imported so far. */
export function localFiles(url?: string): string[] {
  if (url === undefined) return [...modules.keys()].map((each) => fileURLToPath(each));
  const found = new Set([url]);
  for (const one of found) {
    for (const [other, { importers }] of modules) if (importers.has(one)) found.add(other);
  }
  return [...found].map((each) => fileURLToPath(each));
}

/** The next import of a changed module loads the current code. Returns a sentence per change that needs a restart. */
export function refreshLocalModules(): string[] {
  const changed = [...modules].filter(([url, { stamp }]) => stamp !== stampOf(url));
  const outdated = new Set(changed.filter(([, { isFixed }]) => !isFixed).map(([url]) => url));
  for (const url of outdated) {
    for (const importer of modules.get(url)?.importers ?? []) outdated.add(importer);
  }
  if (outdated.size > 0) lastVersion++;
  for (const url of outdated) {
    const module = modules.get(url);
    if (module === undefined || module.isFixed) continue;
    module.versions.push(lastVersion);
    module.stamp = stampOf(url);
  }
  const fixed = changed.filter(([, { isFixed }]) => isFixed);
  return [
    ...fixed.map(([url]) => `the CommonJS module ${fileURLToPath(url)} has changed`),
    ...changedPackages(),
  ];
}

const resolve: ResolveHookSync = (specifier, context, next) => {
  const resolved = next(specifier, context);
  const isCommonJs = resolved.format?.startsWith("commonjs") === true;
  const plugin = modules.get(resolved.url);
  if (plugin !== undefined) plugin.isFixed ||= isCommonJs;
  const [parent = "", query = ""] = context.parentURL?.split("?", 2) ?? [];
  const importer = modules.get(parent);
  if (importer === undefined || !isLocal(resolved.url)) return resolved;
  const isFixed = isCommonJs || context.conditions.includes("require");
  const module = track(resolved.url, isFixed);
  module.importers.add(parent);
  if (isFixed) return resolved;
  // All generations share a CommonJS module, so it gets the current version of what it imports.
  const version = importer.isFixed ? lastVersion : Number(/^v=(\d+)$/.exec(query)?.[1] ?? 0);
  return { ...resolved, url: versioned(resolved.url, module, version) };
};

function track(url: string, isFixed: boolean): LocalModule {
  const known = modules.get(url);
  if (known !== undefined) return known;
  const module = { stamp: stampOf(url), versions: [0], isFixed, importers: new Set<string>() };
  modules.set(url, module);
  return module;
}

function versioned(url: string, { versions }: LocalModule, importer: number): string {
  const version = versions.findLast((each) => each <= importer) ?? 0;
  return version === 0 ? url : `${url}?v=${version}`;
}

function stampOf(url: string): string {
  const stat = statSync(fileURLToPath(url), { throwIfNoEntry: false });
  return stat === undefined ? "missing" : `${stat.ino} ${stat.size} ${stat.mtimeMs}`;
}

function changedPackages(): string[] {
  return [...packageVersions].flatMap(([url, loaded]) => {
    const found = packageVersion(url);
    if (found === loaded) return [];
    return [`${fileURLToPath(url)} has version ${found} on disk, but version ${loaded} is running`];
  });
}

/** Returns the version of the package of the module. Empty if its package.json has no name or no version. */
function packageVersion(url: string): string {
  return packageOf(url)?.version ?? "";
}
