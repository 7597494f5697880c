/** Each module can be deleted: the core and the other modules do not know it. */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { promisify } from "node:util";
import { temporaryFolder } from "../store/folder.ts";
import { copyProduct, deleteModule, modules } from "./deletion.ts";

const run = promisify(execFile);

/** `state`: the compiler's record of the files, so that it checks only those that a deletion concerns. */
async function checkTypes(folder: string, state: string): Promise<void> {
  const program = join(folder, "node_modules/.bin/tsc");
  const options = ["-p", ".", "--incremental", "--tsBuildInfoFile", state];
  const output = await run(program, options, { cwd: folder, maxBuffer: 1 << 26 }).then(
    () => "",
    (error: { readonly stdout: string; readonly stderr: string }) => error.stdout + error.stderr,
  );
  assert.equal(output, "", output);
}

async function health(folder: string, data: string): Promise<number> {
  const child = spawn(process.execPath, ["src/main.ts", "start", "--json"], {
    cwd: folder,
    env: {
      ...process.env,
      // The compile cache is removed with the copy.
      NODE_COMPILE_CACHE: join(folder, "compile-cache"),
      PORT: "0",
      ADMIN_PORT: "0",
      DATA_DIR: data,
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
test("without any one module, the rest has correct types, and the gateway checks its file and starts", async (t) => {
  const folder = temporaryFolder(t);
  const whole = join(folder, "whole.tsbuildinfo");
  copyProduct(folder);
  await checkTypes(folder, whole);
  for (const module of modules) {
    await t.test(module, async () => {
      using _deleted = await deleteModule(folder, module);
      const state = join(folder, "deleted.tsbuildinfo");
      copyFileSync(whole, state);
      await checkTypes(folder, state);
      assert.equal(await health(folder, join(folder, `data-${module}`)), 200);
    });
  }
});
