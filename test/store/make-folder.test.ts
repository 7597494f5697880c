import assert from "node:assert/strict";
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { makeFolder } from "../../src/store/make-folder.ts";
import { temporaryFolder } from "./folder.ts";
import { runModule, sourceUrl } from "./run-module.ts";

test("creates a folder and its missing parent folders with private modes", (t) => {
  const root = temporaryFolder(t);
  makeFolder(join(root, "a", "b", "c"));
  for (const path of ["a", "a/b", "a/b/c"]) {
    assert.equal(statSync(join(root, path)).mode & 0o777, 0o700, path);
  }
});

// D17: Node's recursive mkdir never returns there. The call runs in another process, so that an endless loop ends only
// this test.
test(
  "throws at once if the system cannot create folders",
  { skip: !existsSync("/proc/self") },
  async () => {
    const module = `
    import { makeFolder } from ${JSON.stringify(sourceUrl("src/store/make-folder.ts"))};
    try { makeFolder("/proc/x/y"); } catch (error) { console.log(error.code); }`;
    const { out } = await runModule(module);
    assert.equal(out, "ENOENT\n");
  },
);
