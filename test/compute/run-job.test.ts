/** How a thread imports the modules of jobs. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import run from "../../src/compute/run-job.ts";
import { temporaryFolder } from "../store/folder.ts";

const job = `import { part } from "./part.mjs"; export default ({ text }) => text + part;`;

test("a module and what it imports are loaded once per version, a failed import is repeated", async (t) => {
  const folder = temporaryFolder(t);
  const module = pathToFileURL(join(folder, "job.mjs")).href;
  const result = (query = ""): Promise<unknown> =>
    run({ module: module + query, input: { text: "a" } });
  await assert.rejects(result(), /Cannot find module/);
  writeFileSync(join(folder, "job.mjs"), job);
  writeFileSync(join(folder, "part.mjs"), `export const part = "old";`);
  assert.equal(await result(), "aold");
  writeFileSync(join(folder, "part.mjs"), `export const part = "new";`);
  assert.deepEqual([await result(), await result("?v=1")], ["aold", "anew"]);
});
