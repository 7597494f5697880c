import assert from "node:assert/strict";
import { chmodSync, existsSync, mkdirSync, statSync, symlinkSync, writeFileSync } from "node:fs";
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

test("does not change an existing folder, also through a link", (t) => {
  const root = temporaryFolder(t);
  const folder = join(root, "a");
  mkdirSync(folder);
  chmodSync(folder, 0o755);
  symlinkSync(folder, join(root, "link"));
  makeFolder(folder);
  makeFolder(join(root, "link", "b"));
  assert.equal(statSync(folder).mode & 0o777, 0o755);
  assert.ok(existsSync(join(folder, "b")));
});

test("throws the error of the system if a path component is a file", (t) => {
  const file = join(temporaryFolder(t), "file");
  writeFileSync(file, "");
  assert.throws(() => makeFolder(file), { code: "EEXIST" });
  assert.throws(() => makeFolder(join(file, "below")), { code: "ENOTDIR" });
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
