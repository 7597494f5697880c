/** What the published package holds beside the compiled code. */
import { globSync } from "node:fs";

const patterns = [
  "plugins/ledger/demo/recording*",
  "plugins/dashboard/dashboard/page/*.{html,css,js,svg}",
  "plugins/**/README.md",
  "docs/**/*.{md,png}",
  "src/commands/templates/*.yaml",
  "pipeline.yaml",
  "pipeline.schema.json",
  "README.md",
  "LICENSE",
];

/** Paths below `root`. */
export function assetsOf(root: string): string[] {
  return globSync(patterns, { cwd: root }).filter((path) => !path.endsWith(".ts"));
}
