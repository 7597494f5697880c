/** The tables of docs/licences.md. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../../.ci/entry-modules.ts";
import { publishedPackages } from "../../.ci/published-packages.ts";

/** The packages that are bundled into the published package, and those that npm installs with it. */
export async function publishedLicences(): Promise<string[][]> {
  // A package can be in several folders with the same version.
  const rows = new Map(
    (await publishedPackages()).map(({ name, version, license = "none", isBundled }) => [
      `${name} ${version}`,
      [`\`${name}\``, version, license, isBundled ? "bundled" : "installed"],
    ]),
  );
  const sorted = [...rows].toSorted(([a], [b]) => compare(a, b)).map(([, row]) => row);
  return [["package", "version", "licence", "place"], ...sorted];
}

/** The licences of all packages in the lock file, which includes the tools of development. */
export function lockedLicences(): string[][] {
  // npm writes the lock file.
  const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as {
    packages: Readonly<Record<string, { readonly license?: string; readonly dev?: boolean }>>;
  };
  const named = Object.entries(packages).filter(([path]) => path !== "");
  const byLicence = Map.groupBy(named, ([, { license = "none" }]) => license);
  const rows = [...byLicence].map(([licence, found]) => {
    const names = new Set(found.map(([path]) => path.replace(/^.*node_modules\//, "")));
    const listed = [...names].toSorted().map((name) => `\`${name}\``);
    return [licence, String(names.size), listed.length > maxNames ? "" : listed.join(", ")];
  });
  const byCount = rows.toSorted((a, b) => Number(b[1]) - Number(a[1]) || compare(a[0], b[0]));
  return [["licence", "packages", "names"], ...byCount];
}

/** Common licences have too many packages to name them. `package-lock.json` has them all. */
const maxNames = 20;

function compare(a = "", b = ""): number {
  return a < b ? -1 : 1;
}
