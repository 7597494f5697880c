/** Builds and packs the package once per test run. Its text is the folder with `dist` and `package.tgz`. */
import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { keepForRun } from "../run-share.ts";
import { packPackage } from "./package-fixture.ts";

await keepForRun(async (folder) => {
  packPackage(folder);
  // For tests that run `dist` without an installation: the packages that it depends on.
  symlinkSync(join(import.meta.dirname, "../../node_modules"), join(folder, "node_modules"));
  return { text: folder };
});
