/** Each module can be deleted: the core and the other modules do not know it. */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { promisify } from "node:util";
import { temporaryFolder } from "../store/folder.ts";
import { copyWithout, modules } from "./deletion.ts";

const run = promisify(execFile);

async function succeeds(folder: string, command: string, ...args: string[]): Promise<void> {
  const program = join(folder, "node_modules/.bin", command);
  const output = await run(program, args, { cwd: folder, maxBuffer: 1 << 26 }).then(
    () => "",
    (error: { readonly stdout: string; readonly stderr: string }) => error.stdout + error.stderr,
  );
  assert.equal(output, "", output);
}

/** Starts the gateway of the copy and returns the status of /healthz. */
async function health(folder: string): Promise<number> {
  const child = spawn(process.execPath, ["src/main.ts", "start", "--json"], {
    cwd: folder,
    env: { ...process.env, PORT: "0", ADMIN_PORT: "0", DATA_DIR: join(folder, "data") },
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
    await succeeds(folder, "tsc", "-p", ".");
    await succeeds(folder, "oxlint");
    await succeeds(folder, "node", "src/main.ts", "check");
    assert.equal(await health(folder), 200);
  });
}
