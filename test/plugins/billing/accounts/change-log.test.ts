import assert from "node:assert/strict";
import { test } from "node:test";
import { accountsFixture } from "./fixture.ts";

test("the log is append-only", async (t) => {
  const { db, store } = await accountsFixture(t);
  assert.throws(() => db.exec("UPDATE changes SET actor = 'nobody'"), /append-only/);
  assert.throws(() => db.exec("DELETE FROM changes"), /append-only/);
  // Deletes the old row without running the trigger that forbids it.
  const replace = "INSERT OR REPLACE INTO changes SELECT id, at, 'nobody', action, workspace_id,";
  assert.throws(
    () => db.exec(`${replace} key_id, details, request_id FROM changes`),
    /append-only/,
  );
  assert.equal((await store.changes())[0]?.actor, "test");
});
