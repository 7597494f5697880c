import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { keyState } from "../../../../plugins/billing/accounts/key-rules.ts";
import { hashKey } from "../../../../plugins/billing/accounts/key-text.ts";
import { accountsFixture, hour } from "./fixture.ts";

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

test("the state of a key depends on its revocation first, then on the clock", async (t) => {
  const { issue, clock } = await accountsFixture(t);
  const now = clock.now();
  const { key } = await issue({ expiresAt: now + 10 });
  assert.equal(keyState(key, now + 9), "active");
  assert.equal(keyState(key, now + 10), "expired");
  assert.equal(keyState({ ...key, revokedAt: now }, now + 10), "revoked");
  assert.equal(keyState({ ...key, expiresAt: undefined }, Infinity), "active");
});

test("a capability that this release does not know grants nothing", async (t) => {
  const { db, issue, store } = await accountsFixture(t);
  const { key } = await issue({ capabilities: ["inference"] });
  db.prepare("UPDATE keys SET capabilities = 'inference time-travel' WHERE id = ?").run(key.id);
  assert.deepEqual((await store.findKey(key.id))?.capabilities, new Set(["inference"]));
});
