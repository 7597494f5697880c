/** Creates a folder for one test, which is removed when the test ends. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

export function temporaryFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "sluice-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
