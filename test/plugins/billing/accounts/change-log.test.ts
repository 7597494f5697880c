import assert from "node:assert/strict";
import { test } from "node:test";
import { accountsFixture, hour } from "./fixture.ts";

test("every change has its actor, action, target and time, and never contains the text of a key", async (t) => {
  const { issue, clock, workspace, store, idle } = await accountsFixture(t);
  const start = clock.now();
  const alice = (): { actor: string; at: number } => ({ actor: "cli:alice", at: clock.now() });
  clock.advance(1_000);
  await idle();
  await store.setWorkspace(workspace.id, { plan: "startup" }, alice());
  await store.downgrade(workspace.id, { plan: "free", at: start + hour }, alice());
  const bought = await store.purchase(workspace.id, 250, alice());
  const issued = await issue();
  const rotated = await store.rotateKey(issued.key.id, hour, alice());
  await store.revokeKey(issued.key.id, alice());
  assert.ok(!("failed" in bought) && !("failed" in rotated));

  const changes = await store.changes();
  assert.deepEqual(
    changes.map(({ actor, action, keyId }) => [actor, action, keyId]),
    [
      ["test", "workspace.create", undefined],
      ["cli:alice", "workspace.set", undefined],
      ["cli:alice", "workspace.downgrade", undefined],
      ["cli:alice", "workspace.purchase", undefined],
      ["test", "key.create", issued.key.id],
      ["cli:alice", "key.create", rotated.key.id],
      ["cli:alice", "key.rotate", issued.key.id],
      ["cli:alice", "key.revoke", issued.key.id],
    ],
  );
  assert.deepEqual(
    changes.map(({ id }) => id),
    [1, 2, 3, 4, 5, 6, 7, 8],
  );
  assert.ok(changes.every(({ workspaceId }) => workspaceId === workspace.id));
  assert.equal(changes[0]?.at, start);
  assert.equal(changes[1]?.at, start + 1_000);
  assert.deepEqual(changes[1]?.details, { plan: "startup" });
  assert.deepEqual(changes[3]?.details, { purchaseId: bought.purchaseId, amountCuMilli: 250 });
  const written = JSON.stringify(changes);
  for (const text of [issued.text, rotated.text]) assert.ok(!written.includes(text.slice(-32)));
  assert.deepEqual(await store.changes({ after: 7 }), changes.slice(7));
  assert.deepEqual(await store.changes({ after: 2, limit: 3 }), changes.slice(2, 5));
  assert.deepEqual(await store.changes({ workspaceId: "ws_other" }), []);
});

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
