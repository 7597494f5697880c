import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { listChanges } from "../../../../plugins/billing/accounts/embedded/change-log.ts";
import { keyState } from "../../../../plugins/billing/accounts/key-state.ts";
import { hashKey } from "../../../../plugins/billing/accounts/key-text.ts";
import {
  createKey,
  findKey,
  listKeys,
  revokeKey,
  rotateKey,
} from "../../../../plugins/billing/accounts/embedded/keys.ts";
import { createWorkspace } from "../../../../plugins/billing/accounts/embedded/workspaces.ts";
import { accountsFixture, day, hour } from "./fixture.ts";

test("a key is found as it was created, and its text is unique", (t) => {
  const { db, issue, clock, workspace } = accountsFixture(t);
  const { key, text } = issue({
    name: "ci",
    environment: "stage",
    capabilities: ["ledger:write", "platform:admin"],
    rpsLimit: 0.5,
    cuLimit24hMilli: 0,
    cuLimit30dMilli: 9_000,
    allowedAddresses: ["192.0.2.0/24", "fd00::1"],
    expiresAt: clock.now() + day,
  });
  assert.match(text, /^gateway_stage_[0-9a-f]{32}$/);
  assert.match(key.id, /^key_[0-9a-f]{24}$/);
  assert.deepEqual(findKey(db, key.id), key);
  assert.deepEqual(key, {
    id: key.id,
    workspaceId: workspace.id,
    name: "ci",
    environment: "stage",
    capabilities: new Set(["ledger:write", "platform:admin"]),
    rpsLimit: 0.5,
    cuLimit24hMilli: 0,
    cuLimit30dMilli: 9_000,
    allowedAddresses: ["192.0.2.0/24", "fd00::1"],
    createdAt: clock.now(),
    expiresAt: clock.now() + day,
    revokedAt: undefined,
    lastUsedAt: undefined,
    rotatedTo: undefined,
  });
});

test("the text of a key is not stored anywhere", (t) => {
  const { db, issue, by, folder } = accountsFixture(t);
  const first = issue();
  const second = rotateKey(db, first.key.id, hour, by());
  assert.ok(!("failed" in second));
  const files = readdirSync(folder).map((file) => readFileSync(join(folder, file), "latin1"));
  const stored = files.join("\n");
  for (const text of [first.text, second.text]) {
    assert.ok(stored.includes(hashKey(text)));
    assert.ok(!stored.includes(text.slice(-32)));
  }
});

test("keys of all workspaces or of one are listed oldest first", (t) => {
  const { db, issue, by, clock } = accountsFixture(t);
  const first = issue().key;
  clock.advance(1);
  const other = createWorkspace(db, { name: "Other", plan: "free" }, by());
  const second = issue({ workspaceId: other.id }).key;
  clock.advance(1);
  const third = issue().key;
  assert.deepEqual(listKeys(db), [first, second, third]);
  assert.deepEqual(listKeys(db, other.id), [second]);
  assert.deepEqual(listKeys(db, "ws_none"), []);
});

test("no key is created in an unknown workspace", (t) => {
  const { db, by } = accountsFixture(t);
  const wanted = {
    workspaceId: "ws_none",
    name: "",
    environment: "dev",
    capabilities: [],
  } as const;
  const made = createKey(db, wanted, by());
  assert.deepEqual(made, { failed: "notFound", message: "there is no workspace ws_none" });
  assert.deepEqual(listKeys(db), []);
});

test("a second revocation keeps the time of the first and is not logged", (t) => {
  const { db, issue, by, clock } = accountsFixture(t);
  const { key } = issue();
  const revoked = { ...key, revokedAt: clock.now() };
  assert.deepEqual(revokeKey(db, key.id, by()), revoked);
  const changes = listChanges(db).length;
  clock.advance(hour);
  assert.deepEqual(revokeKey(db, key.id, by()), revoked);
  assert.deepEqual(findKey(db, key.id), revoked);
  assert.equal(listChanges(db).length, changes);
});

test("the state of a key depends on its revocation first, then on the clock", (t) => {
  const { issue, clock } = accountsFixture(t);
  const now = clock.now();
  const { key } = issue({ expiresAt: now + 10 });
  assert.equal(keyState(key, now + 9), "active");
  assert.equal(keyState(key, now + 10), "expired");
  assert.equal(keyState({ ...key, revokedAt: now }, now + 10), "revoked");
  assert.equal(keyState({ ...key, expiresAt: undefined }, Infinity), "active");
});

test("rotation copies capabilities and limits and keeps the old key valid for the overlap", (t) => {
  const { db, issue, by, clock } = accountsFixture(t);
  const old = issue({ capabilities: ["inference"], rpsLimit: 3, cuLimit24hMilli: 7 });
  clock.advance(day);
  const rotated = rotateKey(db, old.key.id, hour, by());
  assert.ok(!("failed" in rotated));
  assert.notEqual(rotated.text, old.text);
  const { key, replaced } = rotated;
  assert.deepEqual(key, { ...old.key, id: key.id, createdAt: clock.now() });
  const expected = { ...old.key, expiresAt: clock.now() + hour, rotatedTo: key.id };
  assert.deepEqual(replaced, expected);
  assert.deepEqual(findKey(db, old.key.id), expected);
  assert.deepEqual(findKey(db, key.id), key);
});

test("a rotated key is not valid for longer than before, and its successor has the same lifetime", (t) => {
  const { db, issue, by, clock } = accountsFixture(t);
  const { key } = issue({ expiresAt: clock.now() + 30 * day });
  clock.advance(30 * day - hour);
  const rotated = rotateKey(db, key.id, day, by());
  assert.ok(!("failed" in rotated));
  assert.equal(rotated.replaced.expiresAt, key.expiresAt);
  assert.equal(rotated.key.expiresAt, clock.now() + 30 * day);
});

test("an overlap of 0 ends the old key at once", (t) => {
  const { db, issue, by, clock } = accountsFixture(t);
  const rotated = rotateKey(db, issue().key.id, 0, by());
  assert.ok(!("failed" in rotated));
  assert.equal(keyState(rotated.replaced, clock.now()), "expired");
});

test("only an active key without a successor can be rotated", (t) => {
  const { db, issue, by, clock } = accountsFixture(t);
  const revoked = issue().key.id;
  revokeKey(db, revoked, by());
  const expired = issue({ expiresAt: clock.now() }).key.id;
  const rotated = issue().key.id;
  const next = rotateKey(db, rotated, hour, by());
  assert.ok(!("failed" in next));
  const keys = listKeys(db);
  for (const [id, message] of [
    [revoked, `${revoked} is revoked`],
    [expired, `${expired} is expired`],
    [rotated, `${rotated} was rotated to ${next.key.id}`],
  ] as const) {
    assert.deepEqual(rotateKey(db, id, hour, by()), { failed: "conflict", message });
  }
  const unknown = { failed: "notFound", message: "there is no key key_none" };
  assert.deepEqual(rotateKey(db, "key_none", hour, by()), unknown);
  assert.deepEqual(revokeKey(db, "key_none", by()), unknown);
  assert.deepEqual(listKeys(db), keys);
});

test("a capability that this release does not know grants nothing", (t) => {
  const { db, issue } = accountsFixture(t);
  const { key } = issue({ capabilities: ["inference"] });
  db.prepare("UPDATE keys SET capabilities = 'inference time-travel' WHERE id = ?").run(key.id);
  assert.deepEqual(findKey(db, key.id)?.capabilities, new Set(["inference"]));
});
