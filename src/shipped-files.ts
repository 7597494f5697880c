/**
 * The files of plugins/ that no module imports by name. The build replaces this module, because the published package
 * has all of them in one file (.ci/bundle.ts).
 */
import { globSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { packageFile, packageRoot } from "./base/package-files.ts";

type Loaders = Readonly<Record<string, () => Promise<unknown>>>;

let found: Loaders | undefined;

/** Returns what imports `plugins/<module>/module.ts` and `plugins/<module>/<plugin>/index.ts`, by these paths, sorted. */
export function shippedFiles(): Loaders {
  return (found ??= findFiles());
}

function findFiles(): Loaders {
  const files = globSync("plugins/{*/module,*/*/index}.ts", { cwd: packageRoot });
  return Object.fromEntries(
    files.toSorted().map((path) => [path, () => import(pathToFileURL(packageFile(path)).href)]),
  );
}
