/** The files of the published package besides the compiled code. */
import { globSync } from "node:fs";

const patterns = [
  "plugins/ledger/demo/recording*",
  "plugins/dashboard/dashboard/page/*.{html,css,js,svg}",
  "plugins/**/README.md",
  "docs/**/*.{md,png,svg}",
  "plugins/*/templates/*.yaml",
  "src/commands/plugin/templates/*.txt",
  "pipeline.yaml",
  "pipeline.schema.json",
  "README.md",
  "LICENSE",
];

/** Files of other packages that browsers load: paths in the published package, and paths in the checkout. */
export const copiedFiles: Readonly<Record<string, string>> = {
  "plugins/dashboard/dashboard/page/uplot.js": "node_modules/uplot/dist/uPlot.esm.js",
  "plugins/dashboard/dashboard/page/uplot.css": "node_modules/uplot/dist/uPlot.min.css",
};

/** Paths below `root`. */
export function assetsOf(root: string): string[] {
  return globSync(patterns, { cwd: root }).filter((path) => !path.endsWith(".ts"));
}
