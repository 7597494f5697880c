import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { keyState } from "../../../../plugins/billing/accounts/key-rules.ts";
import { hashKey } from "../../../../plugins/billing/accounts/key-text.ts";
import { accountsFixture, day, hour } from "./fixture.ts";

test("a key is found as it was created, and its text is unique", async (t) => {
  const { issue, clock, workspace, store } = await accountsFixture(t);
  const { key, text } = await issue({
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
  assert.deepEqual(await store.findKey(key.id), key);
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

test("the text of a key is not stored anywhere", async (t) => {
  const { issue, by, folder, store } = await accountsFixture(t);
  const first = await issue();
  const second = await store.rotateKey(first.key.id, hour, by());
  assert.ok(!("failed" in second));
  const files = readdirSync(folder).map((file) => readFileSync(join(folder, file), "latin1"));
  const stored = files.join("\n");
  for (const text of [first.text, second.text]) {
    assert.ok(stored.includes(hashKey(text)));
    assert.ok(!stored.includes(text.slice(-32)));
  }
});

test("keys of all workspaces or of one are listed oldest first", async (t) => {
  const { issue, by, clock, store, idle } = await accountsFixture(t);
  const first = (await issue()).key;
  clock.advance(1);
  await idle();
  const other = await store.createWorkspace({ name: "Other", plan: "free" }, by());
  const second = (await issue({ workspaceId: other.id })).key;
  clock.advance(1);
  await idle();
  const third = (await issue()).key;
  assert.deepEqual(await store.listKeys(), [first, second, third]);
  assert.deepEqual(await store.listKeys(other.id), [second]);
  assert.deepEqual(await store.listKeys("ws_none"), []);
});

test("the state of a key depends on its revocation first, then on the clock", async (t) => {
  const { issue, clock } = await accountsFixture(t);
  const now = clock.now();
  const { key } = await issue({ expiresAt: now + 10 });
  assert.equal(keyState(key, now + 9), "active");
  assert.equal(keyState(key, now + 10), "expired");
  assert.equal(keyState({ ...key, revokedAt: now }, now + 10), "revoked");
  assert.equal(keyState({ ...key, expiresAt: undefined }, Infinity), "active");
});

test("rotation copies capabilities and limits and keeps the old key valid for the overlap", async (t) => {
  const { issue, by, clock, store, idle } = await accountsFixture(t);
  const old = await issue({ capabilities: ["inference"], rpsLimit: 3, cuLimit24hMilli: 7 });
  clock.advance(day);
  await idle();
  const rotated = await store.rotateKey(old.key.id, hour, by());
  assert.ok(!("failed" in rotated));
  assert.notEqual(rotated.text, old.text);
  const { key, replaced } = rotated;
  assert.deepEqual(key, { ...old.key, id: key.id, createdAt: clock.now() });
  const expected = { ...old.key, expiresAt: clock.now() + hour, rotatedTo: key.id };
  assert.deepEqual(replaced, expected);
  assert.deepEqual(await store.findKey(old.key.id), expected);
  assert.deepEqual(await store.findKey(key.id), key);
});

test("a rotated key is not valid for longer than before, and its successor has the same lifetime", async (t) => {
  const { issue, by, clock, store, idle } = await accountsFixture(t);
  const { key } = await issue({ expiresAt: clock.now() + 30 * day });
  clock.advance(30 * day - hour);
  await idle();
  const rotated = await store.rotateKey(key.id, day, by());
  assert.ok(!("failed" in rotated));
  assert.equal(rotated.replaced.expiresAt, key.expiresAt);
  assert.equal(rotated.key.expiresAt, clock.now() + 30 * day);
});

test("an overlap of 0 ends the old key at once", async (t) => {
  const { issue, by, clock, store } = await accountsFixture(t);
  const rotated = await store.rotateKey((await issue()).key.id, 0, by());
  assert.ok(!("failed" in rotated));
  assert.equal(keyState(rotated.replaced, clock.now()), "expired");
});

test("only an active key without a successor can be rotated", async (t) => {
  const { issue, by, clock, store } = await accountsFixture(t);
  const revoked = (await issue()).key.id;
  await store.revokeKey(revoked, by());
  const expired = (await issue({ expiresAt: clock.now() })).key.id;
  const rotated = (await issue()).key.id;
  const next = await store.rotateKey(rotated, hour, by());
  assert.ok(!("failed" in next));
  const keys = await store.listKeys();
  for (const [id, message] of [
    [revoked, `${revoked} is revoked`],
    [expired, `${expired} is expired`],
    [rotated, `${rotated} was rotated to ${next.key.id}`],
  ] as const) {
    assert.deepEqual(await store.rotateKey(id, hour, by()), { failed: "conflict", message });
  }
  const unknown = { failed: "notFound", message: "there is no key key_none" };
  assert.deepEqual(await store.rotateKey("key_none", hour, by()), unknown);
  assert.deepEqual(await store.revokeKey("key_none", by()), unknown);
  assert.deepEqual(await store.listKeys(), keys);
});

test("a capability that this release does not know grants nothing", async (t) => {
  const { db, issue, store } = await accountsFixture(t);
  const { key } = await issue({ capabilities: ["inference"] });
  db.prepare("UPDATE keys SET capabilities = 'inference time-travel' WHERE id = ?").run(key.id);
  assert.deepEqual((await store.findKey(key.id))?.capabilities, new Set(["inference"]));
});
