import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { UsedPackage } from "./packages.ts";

export function licencesOf(root: string, packages: readonly UsedPackage[]): string {
  const parts = packages
    .filter(({ isBundled }) => isBundled)
    .map(({ folder, name, version, license }) => {
      const [file] = globSync("{LICEN[CS]E,licen[cs]e}*", { cwd: join(root, folder) }).toSorted();
      const text = file === undefined ? "" : readFileSync(join(root, folder, file), "utf8").trim();
      return `${name} ${version} (${license ?? "see below"})\n\n${text}\n`;
    });
  const title = "The published code contains code of these packages.\n";
  return [title, ...new Set(parts.toSorted())].join(`\n${"-".repeat(80)}\n\n`);
}
