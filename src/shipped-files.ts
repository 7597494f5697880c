/**
 * The files of plugins/ that no module imports by name. The build replaces this module, because the published package
 * has all of them in one file (.ci/bundle.ts).
 */
import { globSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { packageFile, packageRoot } from "./base/package-files.ts";

/** Returns what imports `plugins/<module>/module.ts` and `plugins/<module>/<plugin>/index.ts`, by these paths, sorted. */
export function shippedFiles(): Readonly<Record<string, () => Promise<unknown>>> {
  const files = globSync("plugins/{*/module,*/*/index}.ts", { cwd: packageRoot });
  return Object.fromEntries(
    files.toSorted().map((path) => [path, () => import(pathToFileURL(packageFile(path)).href)]),
  );
}
