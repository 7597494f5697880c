/** Each module can be deleted: the core and the other modules do not know it. */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { promisify } from "node:util";
import { temporaryFolder } from "../store/folder.ts";
import { copyWithout, modules } from "./deletion.ts";

const run = promisify(execFile);

async function checkTypes(folder: string): Promise<void> {
  const program = join(folder, "node_modules/.bin/tsc");
  const output = await run(program, ["-p", "."], { cwd: folder, maxBuffer: 1 << 26 }).then(
    () => "",
    (error: { readonly stdout: string; readonly stderr: string }) => error.stdout + error.stderr,
  );
  assert.equal(output, "", output);
}

/** Starts the gateway of the copy and returns the status of /healthz. */
async function health(folder: string): Promise<number> {
  const child = spawn(process.execPath, ["src/main.ts", "start", "--json"], {
    cwd: folder,
    env: {
      ...process.env,
      // The compile cache is removed with the copy.
      NODE_COMPILE_CACHE: join(folder, "compile-cache"),
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

// The linter judges each file by itself, so it would find nothing new in the files that are left.
for (const module of modules) {
  test(`without the module ${module}, the rest has correct types, and the gateway checks its file and starts`, async (t) => {
    const folder = temporaryFolder(t);
    await copyWithout(module, folder);
    await checkTypes(folder);
    assert.equal(await health(folder), 200);
  });
}
