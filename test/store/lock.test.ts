import assert from "node:assert/strict";
import { once } from "node:events";
import { statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { lockStore } from "../../src/store/lock.ts";
import { StoreError } from "../../src/store/store-error.ts";
import { temporaryFolder } from "./folder.ts";
import { runModule, sourceUrl, startModule } from "./run-module.ts";

const inUse = (error: unknown): boolean =>
  error instanceof StoreError && error.code === "SLUICE_STORE_IN_USE" && error.remedy !== "";

/** Code for another process that locks the folder and prints `held`, or the code of the refusal. */
function taking(folder: string, thenWait = false): string {
  return `
    const { lockStore } = await import(${JSON.stringify(sourceUrl("src/store/lock.ts"))});
    try {
      globalThis.lock = lockStore(${JSON.stringify(folder)});
      console.log("held");
      ${thenWait ? "setInterval(() => {}, 1e9);" : ""}
    } catch (error) {
      console.log(error.code);
    }`;
}

test("one process locks the folder, and disposing releases it", async (t) => {
  const folder = join(temporaryFolder(t), "data");
  const lock = lockStore(folder);
  assert.equal((await runModule(taking(folder))).out, "SLUICE_STORE_IN_USE\n");
  lock[Symbol.dispose]();
  lock[Symbol.dispose]();
  assert.equal((await runModule(taking(folder))).out, "held\n");
  lockStore(folder)[Symbol.dispose]();
  assert.equal(statSync(join(folder, "gateway.lock")).mode & 0o777, 0o600);
});

test("a second lock in the same process is refused and does not affect the first", async (t) => {
  const folder = temporaryFolder(t);
  using _lock = lockStore(folder);
  assert.throws(() => lockStore(folder), inUse);
  assert.equal((await runModule(taking(folder))).out, "SLUICE_STORE_IN_USE\n");
});

test("the lock of a killed process is released", async (t) => {
  const folder = temporaryFolder(t);
  const child = startModule(taking(folder, true));
  t.after(() => child.kill("SIGKILL"));
  assert.ok(child.stdout);
  const [line] = await once(child.stdout, "data");
  assert.equal(String(line), "held\n");
  assert.throws(() => lockStore(folder), inUse);
  child.kill("SIGKILL");
  await once(child, "exit");
  lockStore(folder)[Symbol.dispose]();
});
