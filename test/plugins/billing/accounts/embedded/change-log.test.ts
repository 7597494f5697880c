import assert from "node:assert/strict";
import { test } from "node:test";
import { listChanges } from "../../../../../plugins/billing/accounts/embedded/change-log.ts";
import { revokeKey, rotateKey } from "../../../../../plugins/billing/accounts/embedded/keys.ts";
import {
  downgrade,
  purchase,
  setWorkspace,
} from "../../../../../plugins/billing/accounts/embedded/workspaces.ts";
import { accountsFixture, hour } from "../fixture.ts";

test("every change has its actor, action, target and time, and never contains the text of a key", (t) => {
  const { db, issue, clock, workspace } = accountsFixture(t);
  const start = clock.now();
  const alice = (): { actor: string; at: number } => ({ actor: "cli:alice", at: clock.now() });
  clock.advance(1_000);
  setWorkspace(db, workspace.id, { plan: "startup" }, alice());
  downgrade(db, workspace.id, { plan: "free", at: start + hour }, alice());
  const bought = purchase(db, workspace.id, 250, alice());
  const issued = issue();
  const rotated = rotateKey(db, issued.key.id, hour, alice());
  revokeKey(db, issued.key.id, alice());
  assert.ok(!("failed" in bought) && !("failed" in rotated));

  const changes = listChanges(db);
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
  assert.deepEqual(listChanges(db, { after: 7 }), changes.slice(7));
  assert.deepEqual(listChanges(db, { after: 2, limit: 3 }), changes.slice(2, 5));
  assert.deepEqual(listChanges(db, { workspaceId: "ws_other" }), []);
});

test("the log is append-only", (t) => {
  const { db } = accountsFixture(t);
  assert.throws(() => db.exec("UPDATE changes SET actor = 'nobody'"), /append-only/);
  assert.throws(() => db.exec("DELETE FROM changes"), /append-only/);
  // Deletes the old row without running the trigger that forbids it.
  const replace = "INSERT OR REPLACE INTO changes SELECT id, at, 'nobody', action, workspace_id,";
  assert.throws(
    () => db.exec(`${replace} key_id, details, request_id FROM changes`),
    /append-only/,
  );
  assert.equal(listChanges(db)[0]?.actor, "test");
});
