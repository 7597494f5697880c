/**
 * Builds and packs the package once for all test files of a test run. Its text is the path of a folder with the built
 * package in `dist` and the tarball `package.tgz`.
 */
import { keepForRun } from "../run-share.ts";
import { packPackage } from "./package-fixture.ts";

await keepForRun(async (folder) => {
  packPackage(folder);
  return { text: folder };
});
