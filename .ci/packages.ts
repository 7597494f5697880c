import { readFileSync } from "node:fs";
import { join } from "node:path";

export interface UsedPackage {
  /** Relative to the root of the checkout. */
  readonly folder: string;
  readonly name: string;
  readonly version: string;
  readonly license?: string;
  /** False if npm installs the package. */
  readonly isBundled: boolean;
  readonly integrity?: string;
}

interface LockedPackage {
  readonly dev?: boolean;
  readonly optional?: boolean;
  readonly integrity?: string;
}

/** `inputs`: the files that were bundled or copied, relative to `root`. */
export function usedPackages(root: string, inputs: Iterable<string>): UsedPackage[] {
  const bundled = new Set(Array.from(inputs, folderOf).filter((folder) => folder !== undefined));
  // npm writes the lock file.
  const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as {
    packages: Readonly<Record<string, LockedPackage>>;
  };
  const installed = Object.entries(packages)
    .filter(([path, { dev, optional }]) => path !== "" && dev !== true && optional !== true)
    .map(([path]) => path);
  return Array.from(new Set([...bundled, ...installed]), (folder) => {
    // A package.json that npm has installed has these fields.
    const { name, version, license } = JSON.parse(
      readFileSync(join(root, folder, "package.json"), "utf8"),
    ) as { name: string; version: string; license?: string };
    const integrity = packages[folder]?.integrity;
    return {
      folder,
      name,
      version,
      isBundled: bundled.has(folder),
      ...(license !== undefined && { license }),
      ...(integrity !== undefined && { integrity }),
    };
  });
}

function folderOf(file: string): string | undefined {
  return /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0];
}
