/** The model plugins in docs/examples: each one as a package of its own, with its tests and the contract suite. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cpSync, globSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { test, type TestContext } from "node:test";
import { promisify } from "node:util";
import { plugin } from "../../src/commands/plugin/plugin.ts";
import { pluginFileName } from "../../src/pipeline/load/plugin-file.ts";
import { commandLine } from "../commands/command-line.ts";
import { temporaryFolder } from "../store/folder.ts";
import { root } from "./tables.ts";

const run = promisify(execFile);
const folders = globSync("docs/examples/*/package.json", { cwd: root }).map(dirname).toSorted();
const { NODE_TEST_CONTEXT: _, ...env } = process.env;

/** Copies a plugin out of the checkout, with the packages that npm would install. */
function installed(t: TestContext, folder: string): string {
  const target = join(temporaryFolder(t), basename(folder));
  cpSync(join(root, folder), target, { recursive: true });
  const { dependencies = {} } = JSON.parse(readFileSync(join(target, "package.json"), "utf8")) as {
    dependencies?: Record<string, string>;
  };
  const link = (name: string, source: string): void => {
    const path = join(target, "node_modules", name);
    mkdirSync(dirname(path), { recursive: true });
    symlinkSync(source, path, "dir");
  };
  link("sluice-gateway", root);
  for (const name of Object.keys(dependencies)) {
    link(name, join(root, "node_modules", name));
  }
  return target;
}

test("there is a model plugin of each kind", () => {
  assert.deepEqual(
    folders.map((folder) => basename(folder)),
    ["evm-node", "jwt-auth", "mcp-federation", "oauth-metadata", "redact-pii"],
  );
});

for (const folder of folders) {
  test(`${folder} has at most 120 lines per file and passes its tests and the contract suite`, async (t) => {
    const target = installed(t, folder);
    for (const file of globSync("*.ts", { cwd: join(root, folder) })) {
      if (file.endsWith(".test.ts")) continue;
      const lines = readFileSync(join(target, file), "utf8").split("\n").length - 1;
      assert.ok(lines <= 120, `${file} has ${lines} lines`);
    }
    const tested = await run(process.execPath, ["--test", "--test-reporter=tap"], {
      cwd: target,
      env,
    });
    assert.match(tested.stdout, /^# fail 0$/m);
    // Runs the contract suite.
    const packed = await commandLine(t).run(plugin, "pack", target);
    assert.equal(packed.code, 0, packed.err.join("\n"));
    const written = readFileSync(join(target, "dist", pluginFileName), "utf8");
    const recorded = join(root, folder, pluginFileName);
    if (process.env["UPDATE"] === "1") writeFileSync(recorded, written);
    // The formatter may write the file in another way.
    assert.deepEqual(JSON.parse(written), JSON.parse(readFileSync(recorded, "utf8")));
  });
}
