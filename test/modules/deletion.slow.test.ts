/** Each module can be deleted: the core and the other modules do not know it. */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { promisify } from "node:util";
import { copyProduct, deleteCode, deleteModule, modules, separatingSets } from "./deletion.ts";

const run = promisify(execFile);

async function checkTypes(folder: string): Promise<void> {
  const program = join(folder, "node_modules/.bin/tsc");
  // With several threads, the compiler checks some types more than once.
  const options = ["-p", ".", "--singleThreaded"];
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

const folder = mkdtempSync(join(tmpdir(), "sluice-modules-"));
copyProduct(folder);
after(() => rmSync(folder, { recursive: true }));

// The linter judges each file by itself, so it would find nothing new in the files that are left.
test("no file needs the types of a module to which it does not belong", async (t) => {
  const sets = separatingSets();
  for (const [one, other] of modules.flatMap((a) => modules.map((b) => [a, b] as const))) {
    const separates = (set: string[]): boolean => set.includes(one) && !set.includes(other);
    assert.ok(one === other || sets.some(separates), `${one} is deleted without ${other}`);
  }
  for (const set of sets) {
    await t.test(`without ${set.join(", ")}`, async () => {
      using _deleted = deleteCode(folder, set);
      await checkTypes(folder);
    });
  }
});

test("without any one module, the gateway checks its file and starts", async (t) => {
  for (const module of modules) {
    await t.test(module, async () => {
      using _deleted = await deleteModule(folder, module);
      assert.equal(await health(folder, join(folder, `data-${module}`)), 200);
    });
  }
});
