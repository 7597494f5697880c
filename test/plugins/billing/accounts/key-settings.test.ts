/** Tests of changes to keys by an operator, and of their effect in a running gateway. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Failed, KeyRecord } from "sluice-gateway/services";
import type { KeySettings } from "../../../../plugins/billing/accounts/account-store.ts";
import { accountsFixture, day, hour, known, refusal } from "./fixture.ts";

function failure(result: KeyRecord | Failed): Failed {
  assert.ok("failed" in result);
  return result;
}

test("a running gateway sees each setting at its next refresh", async (t) => {
  const { by, issue, open, clock, store, idle } = await accountsFixture(t);
  const { key, text } = await issue();
  const header = `Bearer ${text}`;
  const service = await open();
  const before = await known(service.identify(header));
  const set = async (settings: KeySettings): Promise<void> => {
    assert.ok("id" in (await store.setKey(key.id, settings, by())));
    clock.advance(250);
    await idle();
  };
  await set({ rpsLimit: 3, cuLimit24hMilli: 7, capabilities: ["inference"] });
  const after = await known(service.identify(header));
  assert.notEqual(after, before);
  assert.deepEqual([after.rps, after.key.cuLimit24hMilli], [3, 7]);
  assert.deepEqual([...after.key.capabilities], ["inference"]);
  await set({ allowedAddresses: ["192.0.2.0/24"] });
  assert.equal((await known(service.identify(header, "192.0.2.9"))).key.id, key.id);
  assert.equal(
    await refusal(service.identify(header, "198.51.100.1")),
    "api key not allowed from this address",
  );
  await set({ allowedAddresses: null, expiresAt: clock.now() + hour });
  clock.jump(hour - 251);
  assert.equal((await known(service.identify(header))).key.id, key.id);
  clock.jump(1);
  assert.equal(await refusal(service.identify(header)), "api key has expired");
});

test("a revoked or expired key cannot be changed", async (t) => {
  const { by, issue, clock, store } = await accountsFixture(t);
  const revoked = (await issue()).key.id;
  await store.revokeKey(revoked, by());
  const expired = (await issue({ expiresAt: clock.now() + hour })).key.id;
  clock.jump(hour);
  for (const [id, state] of [
    [revoked, "revoked"],
    [expired, "expired"],
  ] as const) {
    const before = await store.findKey(id);
    const result = failure(await store.setKey(id, { expiresAt: null, name: "again" }, by()));
    assert.deepEqual(result, { failed: "conflict", message: `${id} is ${state}` });
    assert.deepEqual(await store.findKey(id), before);
  }
  assert.equal(failure(await store.setKey("key_none", { name: "x" }, by())).failed, "notFound");
  assert.ok(!(await store.changes()).some(({ action }) => action === "key.set"));
});

test("a rotated key may be set to expire before the end of its overlap, but not later", async (t) => {
  const { by, issue, clock, store } = await accountsFixture(t);
  const { id } = (await issue()).key;
  await store.rotateKey(id, day, by());
  const end = clock.now() + day;
  for (const expiresAt of [null, end + 1]) {
    assert.equal(failure(await store.setKey(id, { expiresAt }, by())).failed, "conflict");
  }
  assert.equal((await store.findKey(id))?.expiresAt, end);
  for (const expiresAt of [end, end - 1]) {
    const set = await store.setKey(id, { expiresAt }, by());
    assert.ok("id" in set);
    assert.equal(set.expiresAt, expiresAt);
  }
});

test("settings that are not given are kept, and every change is logged", async (t) => {
  const { by, issue, store } = await accountsFixture(t);
  const { key } = await issue({ rpsLimit: 2, cuLimit30dMilli: 9 });
  assert.deepEqual(await store.setKey(key.id, { name: "new" }, by()), { ...key, name: "new" });
  const last = (await store.changes()).at(-1);
  const { workspaceId } = key;
  assert.deepEqual(
    [last?.action, last?.keyId, last?.workspaceId],
    ["key.set", key.id, workspaceId],
  );
  assert.deepEqual(last?.details, { name: "new" });
});
