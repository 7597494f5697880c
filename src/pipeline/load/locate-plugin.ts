import { existsSync, readdirSync, realpathSync, statSync } from "node:fs";
import { registerHooks } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

export function isPath(source: string): boolean {
  return /^(\.\.?(\/|$)|\/|file:)/.test(source);
}

/** Finds a module file, or a folder with an index. Links are resolved, as Node does when it imports the module. */
export function locatePath(source: string, folder: string): string | undefined {
  const path = source.startsWith("file:") ? pathOfUrl(source) : resolve(folder, source);
  if (path === undefined) return undefined;
  const candidates = [
    path,
    ...["index.ts", "index.js", "index.mjs"].map((file) => join(path, file)),
  ];
  const found = candidates.find((file) => statSync(file, { throwIfNoEntry: false })?.isFile());
  return found && pathToFileURL(realpathSync(found)).href;
}

/** Returns undefined for a URL that is not a local file (another host). */
function pathOfUrl(url: string): string | undefined {
  try {
    return fileURLToPath(url);
  } catch {
    return undefined;
  }
}

/** Returns the paths of all files in the same folder, spelled like `source`. */
export function filesBeside(source: string, folder: string): string[] {
  const parent = dirname(source);
  return namesIn(resolve(folder, parent)).map((name) => `${parent}/${name}`);
}

function namesIn(folder: string): string[] {
  const isFolder = statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true;
  return isFolder ? readdirSync(folder) : [];
}

/**
 * Resolves in a file next to pipeline.yaml, else in Sluice itself. Node resolves packages only for the calling module
 * (`import.meta.resolve` does not accept another parent). A resolve hook sets the parent for one call, so that
 * `exports`, conditions and nested node_modules work as in Node.
 */
export function locatePackage(source: string, folder: string): string | undefined {
  const parentURL = pathToFileURL(join(folder, "pipeline.yaml")).href;
  const hook = registerHooks({
    resolve: (specifier, context, next) =>
      specifier === source ? next(specifier, { ...context, parentURL }) : next(specifier, context),
  });
  try {
    const beside = resolvePackage(source);
    if (beside !== undefined) return beside;
  } finally {
    hook.deregister();
  }
  return resolvePackage(source);
}

function resolvePackage(source: string): string | undefined {
  try {
    const url = import.meta.resolve(source);
    return url.startsWith("file:") && existsSync(fileURLToPath(url)) ? url : undefined;
  } catch {
    return undefined;
  }
}

export function installedPackages(folder: string): string[] {
  const modules = join(folder, "node_modules");
  return namesIn(modules).flatMap((name) =>
    name.startsWith("@") ? namesIn(join(modules, name)).map((part) => `${name}/${part}`) : [name],
  );
}
