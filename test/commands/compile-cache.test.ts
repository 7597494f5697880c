/** Tests of the rules for the folder of the compile cache, which no command shows. */
import assert from "node:assert/strict";
import {
  chmodSync,
  chownSync,
  mkdirSync,
  rmdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { privateFolder } from "../../src/commands/compile-cache.ts";
import { temporaryFolder } from "../store/folder.ts";

test("the compile cache is in a folder that only the user can open", (t) => {
  const parent = temporaryFolder(t);
  const folder = privateFolder(parent) ?? assert.fail();
  assert.equal(statSync(folder).mode & 0o777, 0o700);
  assert.equal(privateFolder(parent), folder);
});

test("there is no compile cache if another user may have made its folder", (t) => {
  const parent = temporaryFolder(t);
  const folder = privateFolder(parent) ?? assert.fail();
  for (const mode of [0o755, 0o720, 0o777, 0o1777]) {
    chmodSync(folder, mode);
    assert.equal(privateFolder(parent), undefined, mode.toString(8));
  }
  chmodSync(folder, 0o700);
  // Only root can give a folder away.
  if (process.getuid?.() === 0) {
    chownSync(folder, 65_532, 65_532);
    assert.equal(privateFolder(parent), undefined);
  }
  rmdirSync(folder);
  const own = join(parent, "own");
  mkdirSync(own, { mode: 0o700 });
  symlinkSync(own, folder);
  assert.equal(privateFolder(parent), undefined);
});

test("there is no compile cache if its folder cannot be made", (t) => {
  const parent = temporaryFolder(t);
  writeFileSync(join(parent, "file"), "");
  assert.equal(privateFolder(join(parent, "file")), undefined);
});
