import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryFolder } from "../../../store/folder.ts";
import { openFolderAccounts } from "./open-accounts.ts";

// test/store/sql/state-file.test.ts has the tests of files that cannot be used.

test("the first start creates a private folder with an empty database", async (t) => {
  const folder = join(temporaryFolder(t), "new", "data");
  const { store } = await openFolderAccounts(t, folder);
  assert.deepEqual(await store.listWorkspaces(), []);
  assert.equal(statSync(folder).mode & 0o777, 0o700);
  assert.equal(statSync(join(folder, "state.db")).mode & 0o777, 0o600);
});
