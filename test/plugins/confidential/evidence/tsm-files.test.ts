import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { errorCode, kernelFiles } from "../../../../plugins/confidential/evidence/configfs-tsm.ts";
import { temporaryFolder } from "../../../store/folder.ts";

test("files are written without being created or truncated", async (t) => {
  const folder = temporaryFolder(t);
  const path = join(folder, "inblob");
  await assert.rejects(kernelFiles.write(path, Buffer.from("ab")), { code: "ENOENT" });
  writeFileSync(path, "0123456789");
  await kernelFiles.write(path, Buffer.from("ab"));
  assert.equal(readFileSync(path, "utf8"), "ab23456789");
  assert.deepEqual(await kernelFiles.read(path), Buffer.from("ab23456789"));
});

test("a folder is created, and removed only if it is empty", async (t) => {
  const folder = join(temporaryFolder(t), "report");
  await kernelFiles.mkdir(folder);
  await assert.rejects(kernelFiles.mkdir(folder), { code: "EEXIST" });
  writeFileSync(join(folder, "mine"), "");
  await assert.rejects(kernelFiles.rmdir(folder), { code: "ENOTEMPTY" });
});

test("an error without a system code is a bug, and is thrown again", () => {
  assert.equal(errorCode(Object.assign(new Error("x"), { code: "EBUSY" })), "EBUSY");
  assert.throws(() => errorCode(new TypeError("x")), TypeError);
});
