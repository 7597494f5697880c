import { globSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { root as checkout } from "./entry-modules.ts";

const patterns = [
  "plugins/ledger/demo/recording*",
  "plugins/dashboard/dashboard/page/**/*.{html,css,js,svg}",
  "plugins/edge/openapi/viewer/*.{css,js}",
  "plugins/**/README.md",
  "docs/**/*.{md,png,svg}",
  "plugins/*/templates/*.yaml",
  "src/commands/plugin/templates/*.txt",
  // The guides in docs/deploy use these files. The Dockerfiles and Compose files need a checkout.
  "deploy/{chart,grafana,systemd}/**/*.{yaml,json,tpl,service}",
  "deploy/chart/templates/NOTES.txt",
  "deploy/{sidecar.yaml,nginx.conf}",
  "pipeline.yaml",
  "pipeline.schema.json",
  "README.md",
  "LICENSE",
];

/** Each module can be deleted, so the list of the dashboard's libraries is imported only if it exists. */
const [list] = globSync("plugins/dashboard/dashboard/vendored.ts", { cwd: checkout });
const { vendored } =
  list === undefined
    ? { vendored: {} }
    : ((await import(pathToFileURL(join(checkout, list)).href)) as {
        readonly vendored: Readonly<Record<string, string>>;
      });

/** Files of Swagger UI, which plugins/edge/openapi/viewer.ts serves. */
const viewerFiles = ["swagger-ui-bundle.js", "swagger-ui.css"];

/** Files that browsers load: paths in the published package, and paths in the checkout. */
export const copiedFiles: Readonly<Record<string, string>> = Object.fromEntries([
  ...Object.entries(vendored).map(([file, module]) => [
    `plugins/dashboard/dashboard/page/${file}`,
    inCheckout(module),
  ]),
  ...viewerFiles.map((file) => [
    `plugins/edge/openapi/viewer/${file}`,
    inCheckout(`swagger-ui-dist/${file}`),
  ]),
]);

/** Returns the files that are computed in advance, for the modules that exist. */
export async function writtenFiles(): Promise<readonly (readonly [path: string, text: string])[]> {
  const [library] = globSync("plugins/tools/docs-search/library.ts", { cwd: checkout });
  if (library === undefined) return [];
  // This is the only file with this path.
  const docs = (await import(pathToFileURL(join(checkout, library)).href)) as {
    readonly ownFiles: typeof writtenFiles;
  };
  return docs.ownFiles();
}

/** Returns a path relative to the checkout. */
function inCheckout(module: string): string {
  return relative(checkout, fileURLToPath(import.meta.resolve(module)));
}

export function assetsOf(root: string): string[] {
  return globSync(patterns, { cwd: root }).filter((path) => !path.endsWith(".ts"));
}
