/** Finds data folders that a package manager would delete. */
import { realpathSync } from "node:fs";
import { basename, dirname, join, sep } from "node:path";

/**
 * Whether `folder` is located in a node_modules folder, where npm deletes and replaces files. Follows links. `folder`:
 * an absolute path; the folder does not have to exist.
 */
export function isInNodeModules(folder: string): boolean {
  return [folder, realPath(folder)].some((path) => path.split(sep).includes("node_modules"));
}

/** Resolves the links in the part of the path that exists. */
function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const above = dirname(path);
    return above === path ? path : join(realPath(above), basename(path));
  }
}
