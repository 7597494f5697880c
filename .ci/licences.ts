/** The licences of the packages whose code is in the published package. */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Returns one text with the name, version and licence of each package. `inputs`: the files that were bundled. */
export function licencesOf(root: string, inputs: Iterable<string>): string {
  const folders = Array.from(inputs, (file) => {
    return /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0];
  }).filter((folder) => folder !== undefined);
  const parts = Array.from(new Set(folders), (folder) => {
    // A package.json that npm has installed has these fields.
    const { name, version, license } = JSON.parse(
      readFileSync(join(root, folder, "package.json"), "utf8"),
    ) as { name: string; version: string; license?: string };
    const [file] = globSync("{LICEN[CS]E,licen[cs]e}*", { cwd: join(root, folder) }).toSorted();
    const text = file === undefined ? "" : readFileSync(join(root, folder, file), "utf8").trim();
    return `${name} ${version} (${license ?? "see below"})\n\n${text}\n`;
  });
  const title = "The published code contains code of these packages.\n";
  return [title, ...parts.toSorted()].join(`\n${"-".repeat(80)}\n\n`);
}
