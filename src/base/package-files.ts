/**
 * Finds files of this package. Code must not find them by its own `import.meta.url`: the published package is bundled,
 * so a module's code is in another file there.
 */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

export const packageRoot = findRoot(import.meta.dirname);

/** `.ts` if Node runs the sources, `.js` in the published package. */
export const codeSuffix = import.meta.filename.endsWith(".ts") ? ".ts" : ".js";

export function packageFile(path: string): string {
  return join(packageRoot, path);
}

/**
 * Returns the URL of a module that a thread runs. `path` starts at the root of the package and has no suffix. The build
 * finds these calls and makes a file for each of them, so the argument must be a string literal.
 */
export function threadModule(path: string): string {
  return pathToFileURL(packageFile(`${path}${codeSuffix}`)).href;
}

function findRoot(folder: string): string {
  const parent = dirname(folder);
  return existsSync(join(folder, "package.json")) || parent === folder ? folder : findRoot(parent);
}
