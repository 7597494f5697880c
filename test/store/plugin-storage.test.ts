import assert from "node:assert/strict";
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { noEntries, storageOf } from "../../src/store/plugin-entries.ts";
import { openPluginEntries } from "../../src/store/plugin-storage.ts";
import type { PluginStorage } from "../../src/plugin.ts";
import { StoreError } from "../../src/store/store-error.ts";
import { temporaryFolder } from "./folder.ts";

/** Checks that every method rejects with an error whose message matches. */
async function failsWith(storage: PluginStorage, expected: RegExp): Promise<void> {
  await assert.rejects(storage.get("a"), expected);
  await assert.rejects(storage.set("a", "b"), expected);
  await assert.rejects(storage.delete("a"), expected);
  await assert.rejects(storage.list(), expected);
}

test("the file is created when the first plugin uses its storage", async (t) => {
  const folder = temporaryFolder(t);
  const entries = openPluginEntries(folder);
  t.after(() => entries.close());
  assert.deepEqual(readdirSync(folder), []);
  await storageOf("acme", entries).set("a", "b");
  assert.ok(readdirSync(folder).includes("storage.db"));
});

test("a damaged file is reported at start", (t) => {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, "storage.db"), "this is not a database".repeat(100));
  assert.throws(
    () => openPluginEntries(folder),
    (error) => error instanceof StoreError && error.code === "SLUICE_STORE_CORRUPT",
  );
});

test("every method rejects if the folder cannot be used, and after the stop", async (t) => {
  const unusable = openPluginEntries("/dev/null/data");
  await failsWith(storageOf("acme", unusable), /storage\.db/);
  const folder = temporaryFolder(t);
  const closed = openPluginEntries(folder);
  closed.close();
  await failsWith(storageOf("acme", closed), /the gateway has stopped/);
  assert.deepEqual(readdirSync(folder), []);
});

test("a dry run keeps nothing", async () => {
  const storage = storageOf("acme", noEntries);
  await storage.set("a", "b");
  await storage.delete("a");
  assert.deepEqual([await storage.get("a"), await storage.list()], [undefined, []]);
});
