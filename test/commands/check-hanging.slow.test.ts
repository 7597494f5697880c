/** `sluice check` in its own process, with a plugin that leaves nothing to wait for: it must still report a fault. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryFolder } from "../store/folder.ts";

const main = join(import.meta.dirname, "../../src/main.ts");

test("check names a plugin that never stops, and exits with 1", async (t) => {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  writeFileSync(
    join(folder, "stuck.js"),
    `export default {
      kind: "surface", name: "stuck", description: "Never stops.",
      start: () => ({ answer: () => ({ status: 200 }), stop: () => new Promise(() => {}) }),
    };`,
  );
  writeFileSync(
    join(folder, "pipeline.yaml"),
    `version: 1\nplugins: { stuck: ./stuck.js }\nroutes:\n  - { path: /x, to: stuck }\n`,
  );
  const { promise, resolve } = Promise.withResolvers<[number | string | null, string]>();
  const child = execFile(process.execPath, [main, "check"], { cwd: folder }, (error, out, err) =>
    resolve([error === null ? 0 : (child.exitCode ?? "killed"), out + err]),
  );
  const [code, text] = await promise;
  assert.equal(code, 1, text);
  assert.match(text, /SLUICE_PLUGIN_STOP.*plugin enforce stuck did not stop within 4 s/);
});
