import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { copiedFiles } from "./assets.ts";
import { bundle } from "./bundle.ts";
import { browserModules, gatewayModules, root } from "./entry-modules.ts";
import { usedPackages, type UsedPackage } from "./packages.ts";

/** Finds the packages without building: it only bundles, into a temporary folder. */
export async function publishedPackages(): Promise<UsedPackage[]> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-bundle-"));
  try {
    const bundled = await bundle(root, folder, gatewayModules, browserModules);
    return usedPackages(root, [...bundled, ...Object.values(copiedFiles)]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
