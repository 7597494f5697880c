/** Each module can be deleted: the core and the other modules do not know it. */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { temporaryFolder } from "../store/folder.ts";
import { copyAll, copyWithout, modules } from "./deletion.ts";

const run = promisify(execFile);

/**
 * A copy with all modules. The type check of each other copy starts from the result of this one, and checks only what
 * the deletion affects: a check of everything takes about 25 seconds of CPU time.
 */
const whole = mkdtempSync(join(tmpdir(), "sluice-"));
after(() => rmSync(whole, { recursive: true, force: true }));
const checkedTypes = "checked.tsbuildinfo";

before(async () => {
  copyAll(whole);
  await checkTypes(whole);
});

function checkTypes(folder: string): Promise<void> {
  const file = join(folder, checkedTypes);
  return succeeds(folder, "tsc", "-p", ".", "--incremental", "--tsBuildInfoFile", file);
}

async function succeeds(folder: string, command: string, ...args: string[]): Promise<void> {
  const program = join(folder, "node_modules/.bin", command);
  const options = { cwd: folder, env: environmentOf(folder), maxBuffer: 1 << 26 };
  const output = await run(program, args, options).then(
    () => "",
    (error: { readonly stdout: string; readonly stderr: string }) => error.stdout + error.stderr,
  );
  assert.equal(output, "", output);
}

/** The compile cache of the copy is removed with the copy. */
function environmentOf(folder: string): NodeJS.ProcessEnv {
  return { ...process.env, NODE_COMPILE_CACHE: join(folder, "compile-cache") };
}

/** Starts the gateway of the copy and returns the status of /healthz. */
async function health(folder: string): Promise<number> {
  const child = spawn(process.execPath, ["src/main.ts", "start", "--json"], {
    cwd: folder,
    env: {
      ...environmentOf(folder),
      PORT: "0",
      ADMIN_PORT: "0",
      DATA_DIR: join(folder, "data"),
    },
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    for await (const line of createInterface(child.stdout)) {
      const { url } = JSON.parse(line) as { readonly url?: string };
      if (url !== undefined) return (await fetch(`${url}/healthz`)).status;
    }
    return 0;
  } finally {
    child.kill();
    if (child.exitCode === null) await once(child, "exit");
  }
}

for (const module of modules) {
  test(`without the module ${module}, the rest passes all checks and starts`, async (t) => {
    const folder = temporaryFolder(t);
    await copyWithout(module, folder);
    // Rules that need types do not depend on a missing module, and take most of the time.
    const config = join(folder, ".oxlintrc.json");
    writeFileSync(
      config,
      readFileSync(config, "utf8").replace('"typeAware": true', '"typeAware": false'),
    );
    copyFileSync(join(whole, checkedTypes), join(folder, checkedTypes));
    await checkTypes(folder);
    await succeeds(folder, "oxlint");
    await succeeds(folder, "node", "src/main.ts", "check");
    assert.equal(await health(folder), 200);
  });
}
