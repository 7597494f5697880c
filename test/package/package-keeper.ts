/** Builds and packs the package once per test run. Its text is the folder with `dist` and `package.tgz`. */
import { keepForRun } from "../run-share.ts";
import { packPackage } from "./package-fixture.ts";

await keepForRun(async (folder) => {
  packPackage(folder);
  return { text: folder };
});
