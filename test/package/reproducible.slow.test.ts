import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { test } from "node:test";
import { temporaryFolder } from "../store/folder.ts";
import { buildPackage, packedPackage } from "./package-fixture.ts";

function hashesOf(folder: string): ReadonlyMap<string, string> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name));
  return new Map(
    files.map((file) => [
      relative(folder, file),
      createHash("sha256").update(readFileSync(file)).digest("hex"),
    ]),
  );
}

test("two builds in different folders have the same files", async (t) => {
  const second = join(temporaryFolder(t), "two/deeper");
  buildPackage(second);
  const [one, two] = [hashesOf((await packedPackage()).dist), hashesOf(second)];
  assert.ok(one.size > 100);
  const paths = new Set([...one.keys(), ...two.keys()]);
  const different = [...paths].filter((path) => one.get(path) !== two.get(path));
  assert.deepEqual(different, []);
});
