import assert from "node:assert/strict";
import type { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import type { ApiKey, IssuedKey, KeyPrincipal } from "sluice-gateway/services";
import type { AccountsService } from "../../../../plugins/billing/accounts/accounts.ts";
import { newKeyText } from "../../../../plugins/billing/accounts/key-text.ts";
import { accountsFixture, day, hour, known, refusal, type AccountsFixture } from "./fixture.ts";

const pollMs = 250;

function knownAll(
  accounts: AccountsService,
  issued: readonly IssuedKey[],
): Promise<readonly KeyPrincipal[]> {
  return Promise.all(issued.map(({ text }) => known(accounts.identify(`Bearer ${text}`))));
}

function issueAll(count: number, issue: AccountsFixture["issue"]): Promise<readonly IssuedKey[]> {
  return Promise.all(Array.from({ length: count }, () => issue()));
}

/** Revokes a key in the transaction of this connection. */
function revokeWith(db: DatabaseSync, { id, workspaceId }: ApiKey): void {
  db.prepare("UPDATE keys SET revoked_at = 1 WHERE id = ?").run(id);
  db.prepare(
    "INSERT INTO changes (at, actor, action, workspace_id, key_id, details) VALUES (0, 'test', 'key.revoke', ?, ?, '{}')",
  ).run(workspaceId, id);
}

test("a key that was looked up before it existed works after it is created", async (t) => {
  const { db, clock, issue, open, idle } = await accountsFixture(t);
  const { key, text } = await issue();
  const { hash } = db.prepare("SELECT hash FROM keys").get() ?? {};
  assert.ok(typeof hash === "string");
  // Deletes the key as if it had not been created yet, because the text of a future key cannot be known.
  db.prepare("UPDATE keys SET hash = ?").run("0".repeat(64));
  const accounts = await open();
  assert.equal(await refusal(accounts.identify(`Bearer ${text}`)), "unauthorized");
  db.prepare("UPDATE keys SET hash = ?").run(hash);
  db.prepare(
    "INSERT INTO changes (at, actor, action, workspace_id, key_id, details) VALUES (0, '', 'key.create', ?, ?, '{}')",
  ).run(key.workspaceId, key.id);
  clock.advance(pollMs);
  await idle();
  assert.equal((await known(accounts.identify(`Bearer ${text}`))).key.id, key.id);
});

test("a key that was just created works at once, also for many requests at the same time", async (t) => {
  const { open, issue, idle, clock } = await accountsFixture(t);
  const accounts = await open();
  clock.advance(250);
  await idle();
  const { text, key } = await issue();
  const callers = await Promise.all(
    Array.from({ length: 20 }, async () => accounts.identify(`Bearer ${text}`)),
  );
  assert.deepEqual(
    new Set(callers.map((caller) => caller.kind === "key" && caller.key.id)),
    new Set([key.id]),
  );
});

test("a change creates new principals only for the affected keys", async (t) => {
  const { by, clock, issue, open, store, idle } = await accountsFixture(t);
  const [first, second] = [await issue(), await issue()];
  const accounts = await open();
  const before = await knownAll(accounts, [first, second]);
  const after = async (): Promise<unknown[]> => {
    clock.advance(pollMs);
    await idle();
    return [first, second].map(({ text }) => accounts.identify(`Bearer ${text}`));
  };
  // A change of another key, and the creation of these two, which is older than the state in memory.
  await issue();
  assert.deepEqual(
    (await after()).map((each, i) => each === before[i]),
    [true, true],
  );
  await store.rotateKey(first.key.id, hour, by());
  assert.deepEqual(
    (await after()).map((each, i) => each === before[i]),
    [false, true],
  );
});

test("changes of plan, limit, purchases and pending plan of a workspace apply to all its keys", async (t) => {
  const { by, clock, workspace, issue, open, store, idle } = await accountsFixture(t);
  const issued = [await issue(), await issue()];
  const accounts = await open();
  const seen = async (): ReturnType<typeof knownAll> => {
    clock.advance(pollMs);
    await idle();
    return knownAll(accounts, issued);
  };
  await seen();
  await store.setWorkspace(workspace.id, { plan: "startup", overageLimitCuMilli: 9 }, by());
  for (const principal of await seen()) {
    assert.deepEqual([principal.plan.name, principal.rps], ["startup", 50]);
    assert.equal(principal.workspace.overageLimitCuMilli, 9);
  }
  await store.purchase(workspace.id, 77, by());
  for (const { workspace: now } of await seen()) assert.equal(now.purchasedTotalMilliCu, 77);
  await store.downgrade(workspace.id, { plan: "free", at: clock.now() + day }, by());
  for (const { workspace: now } of await seen()) assert.equal(now.pendingPlan, "free");
  clock.jump(day);
  for (const principal of await seen()) assert.equal(principal.plan.name, "free");
  assert.equal(accounts.stats().lookups, 2);
});

test("changes that a lock delays are seen after its release, and cached keys work meanwhile", async (t) => {
  const { db, clock, issue, open, idle } = await accountsFixture(t);
  const { key, text } = await issue();
  const stranger = await issue();
  const accounts = await open();
  const principal = await known(accounts.identify(`Bearer ${text}`));
  db.exec("BEGIN EXCLUSIVE");
  revokeWith(db, key);
  clock.advance(10 * pollMs);
  await idle();
  assert.equal(accounts.identify(`Bearer ${text}`), principal);
  await known(accounts.identify(`Bearer ${stranger.text}`));
  db.exec("COMMIT");
  clock.advance(pollMs);
  await idle();
  assert.equal(await refusal(accounts.identify(`Bearer ${text}`)), "unauthorized");
  assert.equal(accounts.stats().healthy, true);
});

test("an unreadable database is logged once, cached keys work, and reading recovers", async (t) => {
  const { db, clock, issue, open, lines, idle } = await accountsFixture(t);
  const { key, text } = await issue();
  const stranger = await issue();
  const accounts = await open();
  const principal = await known(accounts.identify(`Bearer ${text}`));
  revokeWith(db, key);
  db.exec("ALTER TABLE keys RENAME TO keys_elsewhere");
  clock.advance(4 * pollMs);
  await idle();
  assert.equal(accounts.identify(`Bearer ${text}`), principal);
  assert.deepEqual(await accounts.identify(`Bearer ${stranger.text}`), { kind: "unavailable" });
  assert.equal(accounts.stats().healthy, false);
  assert.deepEqual(lines, ["error cannot read accounts; keys in memory stay valid"]);

  db.exec("ALTER TABLE keys_elsewhere RENAME TO keys");
  clock.advance(pollMs);
  await idle();
  assert.equal(await refusal(accounts.identify(`Bearer ${text}`)), "unauthorized");
  assert.equal((await known(accounts.identify(`Bearer ${stranger.text}`))).key.id, stranger.key.id);
  assert.equal(accounts.stats().healthy, true);
  assert.equal(lines.at(-1), "info accounts are readable again");
});

test("the last uses of more keys than one write holds are on disk 250 ms later", async (t) => {
  const { db, clock, issue, open, idle } = await accountsFixture(t);
  const issued = await issueAll(1_001, issue);
  const accounts = await open();
  await knownAll(accounts, issued);
  const saved = (): unknown => db.prepare("SELECT count(*) AS n FROM key_use").get()?.["n"];
  clock.advance(60_000);
  await idle();
  assert.equal(saved(), 1_000);
  clock.advance(pollMs);
  await idle();
  assert.equal(saved(), 1_001);
});

test("a refused key does not count as used, and a last use never goes back", async (t) => {
  const { clock, issue, open, store, idle } = await accountsFixture(t);
  const { key, text } = await issue({ expiresAt: clock.now() + hour });
  const accounts = await open();
  await accounts.identify(`Bearer ${text}`);
  const first = clock.now();
  clock.jump(hour);
  await accounts.identify(`Bearer ${text}`);
  clock.advance(60_000);
  await idle();
  assert.equal((await store.findKey(key.id))?.lastUsedAt, first);
  clock.jump(-3 * hour);
  await accounts.identify(`Bearer ${text}`);
  clock.advance(60_000);
  await idle();
  assert.equal((await store.findKey(key.id))?.lastUsedAt, first);
});

test("the last use before a revocation or an eviction is kept", async (t) => {
  const { by, clock, issue, open, store, idle } = await accountsFixture(t);
  const issued = await issueAll(4, issue);
  const accounts = await open({ remember: { keys: 2, unknown: 2 } });
  for (const { text } of issued) await accounts.identify(`Bearer ${text}`);
  const at = clock.now();
  const revoked = issued.at(-1);
  assert.ok(revoked);
  await store.revokeKey(revoked.key.id, by());
  clock.advance(60_000);
  await idle();
  assert.deepEqual(
    (await store.listKeys()).map(({ lastUsedAt }) => lastUsedAt),
    [at, at, at, at],
  );
});

test("a last use that could not be written is written a minute later", async (t) => {
  const { db, clock, issue, open, lines, store, idle } = await accountsFixture(t);
  const { key, text } = await issue();
  const accounts = await open();
  await accounts.identify(`Bearer ${text}`);
  const at = clock.now();
  db.exec("ALTER TABLE key_use RENAME TO key_use_elsewhere");
  clock.advance(60_000);
  await idle();
  db.exec("ALTER TABLE key_use_elsewhere RENAME TO key_use");
  assert.equal((await store.findKey(key.id))?.lastUsedAt, undefined);
  assert.match(lines.join(), /warn cannot save the time of the last use of keys/);
  clock.advance(60_000);
  await idle();
  assert.equal((await store.findKey(key.id))?.lastUsedAt, at);
  assert.equal(accounts.stats().healthy, true);
});

test("a closed service identifies cached keys, refuses others and does not throw", async (t) => {
  const { clock, issue, open, idle, sql } = await accountsFixture(t);
  const { text } = await issue();
  const stranger = await issue();
  const accounts = await open();
  const principal = await accounts.identify(`Bearer ${text}`);
  await accounts.close();
  await accounts.close();
  await sql.close();
  assert.equal(accounts.identify(`Bearer ${text}`), principal);
  const unavailable = { kind: "unavailable" };
  assert.deepEqual(await accounts.identify(`Bearer ${stranger.text}`), unavailable);
  assert.deepEqual(await accounts.identify(`Bearer ${newKeyText("dev")}`), unavailable);
  clock.advance(hour);
  await idle();
});
