/** Data folders that a package manager would delete. */
import { realpathSync } from "node:fs";
import { basename, dirname, join, sep } from "node:path";

/**
 * Whether `folder`, which is absolute and need not exist, is located in a node_modules folder: npm deletes and replaces
 * what it finds there. Follows links.
 */
export function isInNodeModules(folder: string): boolean {
  return [folder, realPath(folder)].some((path) => path.split(sep).includes("node_modules"));
}

/** The path without links, as far as it exists. */
function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const above = dirname(path);
    return above === path ? path : join(realPath(above), basename(path));
  }
}
