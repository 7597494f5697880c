import assert from "node:assert/strict";
import { test } from "node:test";
import { noEntries, storageOf } from "../../src/store/plugin-entries.ts";
import { createPluginEntries } from "../../src/store/plugin-storage.ts";
import { temporaryFolder } from "./folder.ts";
import { openFolderSql } from "./open-sql.ts";

test("every method rejects after the stop", async (t) => {
  const sql = await openFolderSql(t, temporaryFolder(t));
  const storage = storageOf("acme", createPluginEntries(sql));
  await storage.set("a", "b");
  await sql.close();
  const stopped = /the gateway has stopped/;
  await assert.rejects(storage.get("a"), stopped);
  await assert.rejects(storage.set("a", "b"), stopped);
  await assert.rejects(storage.delete("a"), stopped);
  await assert.rejects(storage.list(), stopped);
});

test("a dry run keeps nothing", async () => {
  const storage = storageOf("acme", noEntries);
  await storage.set("a", "b");
  await storage.delete("a");
  assert.deepEqual([await storage.get("a"), await storage.list()], [undefined, []]);
});
