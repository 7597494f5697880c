import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { test } from "node:test";
import { buildPackage } from "./package-fixture.ts";

/** Returns the SHA-256 of every file below `folder`, by its path. */
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

test("two builds in different folders have the same files", () => {
  const folder = mkdtempSync(join(tmpdir(), "sluice-builds-"));
  try {
    const [first, second] = ["one", "two/deeper"].map((name) => {
      const dist = join(folder, name);
      buildPackage(dist);
      return hashesOf(dist);
    });
    assert.ok(first !== undefined && first.size > 100);
    const paths = new Set([...first.keys(), ...(second?.keys() ?? [])]);
    const different = [...paths].filter((path) => first.get(path) !== second?.get(path));
    assert.deepEqual(different, []);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
