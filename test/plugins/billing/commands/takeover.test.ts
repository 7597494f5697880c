/** Commands on a data folder that an earlier release has written. */
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import { keys } from "../../../../plugins/billing/commands/keys.ts";
import { lockStore } from "../../../../src/store/lock.ts";
import { commandLine } from "../../../commands/command-line.ts";
import { embeddedFolder } from "../../../fixtures/billing/fixtures.ts";

test("a command moves the accounts of an earlier release, but not while a gateway uses the folder", async (t) => {
  const { data, run } = commandLine(t);
  mkdirSync(data, { mode: 0o700, recursive: true });
  const file = (name: string): string => join(data, name);
  for (const name of ["accounts.db", "accounts.db-wal"]) {
    writeFileSync(file(name), gunzipSync(readFileSync(join(embeddedFolder, `${name}.gz`))));
  }
  const before = readFileSync(file("accounts.db"));
  {
    using _gateway = lockStore(data);
    const { code, err } = await run(keys, "list");
    assert.equal(code, 1);
    assert.match(err.join("\n"), /SLUICE_STORE_IN_USE/);
    assert.deepEqual(readFileSync(file("accounts.db")), before);
  }
  const { code, out } = await run(keys, "list");
  assert.equal(code, 0);
  assert.ok(out.some((line) => line.startsWith("key_")));
  using _gateway = lockStore(data);
  assert.deepEqual(await run(keys, "list"), { code, out, err: [] }, "the files have been moved");
});
