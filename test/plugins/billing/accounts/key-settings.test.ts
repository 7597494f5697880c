/** Tests of changes to keys by an operator, and of their effect in a running gateway. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Failed, KeyRecord } from "sluice-gateway/services";
import { listChanges } from "../../../../plugins/billing/accounts/embedded/change-log.ts";
import type { KeySettings } from "../../../../plugins/billing/accounts/account-store.ts";
import {
  findKey,
  revokeKey,
  rotateKey,
  setKey,
} from "../../../../plugins/billing/accounts/embedded/keys.ts";
import { accountsFixture, day, hour, known, refusal } from "./fixture.ts";

function failure(result: KeyRecord | Failed): Failed {
  assert.ok("failed" in result);
  return result;
}

test("a running gateway sees each setting at its next refresh", (t) => {
  const { db, by, issue, open, clock } = accountsFixture(t);
  const { key, text } = issue();
  const header = `Bearer ${text}`;
  const service = open();
  const before = known(service.identify(header));
  const set = (settings: KeySettings): void => {
    assert.ok("id" in setKey(db, key.id, settings, by()));
    clock.advance(250);
  };
  set({ rpsLimit: 3, cuLimit24hMilli: 7, capabilities: ["inference"] });
  const after = known(service.identify(header));
  assert.notEqual(after, before);
  assert.deepEqual([after.rps, after.key.cuLimit24hMilli], [3, 7]);
  assert.deepEqual([...after.key.capabilities], ["inference"]);
  set({ allowedAddresses: ["192.0.2.0/24"] });
  assert.equal(known(service.identify(header, "192.0.2.9")).key.id, key.id);
  assert.equal(
    refusal(service.identify(header, "198.51.100.1")),
    "api key not allowed from this address",
  );
  set({ allowedAddresses: null, expiresAt: clock.now() + hour });
  clock.jump(hour - 251);
  assert.equal(known(service.identify(header)).key.id, key.id);
  clock.jump(1);
  assert.equal(refusal(service.identify(header)), "api key has expired");
});

test("a revoked or expired key cannot be changed", (t) => {
  const { db, by, issue, clock } = accountsFixture(t);
  const revoked = issue().key.id;
  revokeKey(db, revoked, by());
  const expired = issue({ expiresAt: clock.now() + hour }).key.id;
  clock.jump(hour);
  for (const [id, state] of [
    [revoked, "revoked"],
    [expired, "expired"],
  ] as const) {
    const before = findKey(db, id);
    const result = failure(setKey(db, id, { expiresAt: null, name: "again" }, by()));
    assert.deepEqual(result, { failed: "conflict", message: `${id} is ${state}` });
    assert.deepEqual(findKey(db, id), before);
  }
  assert.equal(failure(setKey(db, "key_none", { name: "x" }, by())).failed, "notFound");
  assert.ok(!listChanges(db).some(({ action }) => action === "key.set"));
});

test("a rotated key may be set to expire before the end of its overlap, but not later", (t) => {
  const { db, by, issue, clock } = accountsFixture(t);
  const { id } = issue().key;
  rotateKey(db, id, day, by());
  const end = clock.now() + day;
  for (const expiresAt of [null, end + 1]) {
    assert.equal(failure(setKey(db, id, { expiresAt }, by())).failed, "conflict");
  }
  assert.equal(findKey(db, id)?.expiresAt, end);
  for (const expiresAt of [end, end - 1]) {
    const set = setKey(db, id, { expiresAt }, by());
    assert.ok("id" in set);
    assert.equal(set.expiresAt, expiresAt);
  }
});

test("settings that are not given are kept, and every change is logged", (t) => {
  const { db, by, issue } = accountsFixture(t);
  const { key } = issue({ rpsLimit: 2, cuLimit30dMilli: 9 });
  assert.deepEqual(setKey(db, key.id, { name: "new" }, by()), { ...key, name: "new" });
  const last = listChanges(db).at(-1);
  const { workspaceId } = key;
  assert.deepEqual(
    [last?.action, last?.keyId, last?.workspaceId],
    ["key.set", key.id, workspaceId],
  );
  assert.deepEqual(last?.details, { name: "new" });
});
