import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import type { AccountsService } from "../../../../plugins/billing/accounts/accounts.ts";
import { newKeyText } from "../../../../plugins/billing/accounts/key-text.ts";
import {
  findKey,
  listKeys,
  revokeKey,
  rotateKey,
} from "../../../../plugins/billing/accounts/embedded/keys.ts";
import {
  downgrade,
  purchase,
  setWorkspace,
} from "../../../../plugins/billing/accounts/embedded/workspaces.ts";
import { systemClock } from "../../../../src/clock.ts";
import { runModule, sourceUrl } from "../../../store/run-module.ts";
import { accountsFixture, day, hour, known, refusal } from "./fixture.ts";
import { atOnce } from "../../../../plugins/contracts/at-once.ts";

const pollMs = 250;

test("a revocation by another connection is seen at the next refresh, at most 250 ms later", (t) => {
  const { db, by, clock, issue, open } = accountsFixture(t);
  const { key, text } = issue();
  const accounts = open();
  known(accounts.identify(`Bearer ${text}`));
  revokeKey(db, key.id, by());
  clock.advance(pollMs);
  assert.equal(refusal(accounts.identify(`Bearer ${text}`)), "unauthorized");
});

test("a recently used key is refused as soon as its revocation is read", (t) => {
  const { db, by, issue, open } = accountsFixture(t);
  const { key, text } = issue();
  const accounts = open();
  assert.equal(accounts.identify(`Bearer ${text}`), accounts.identify(`Bearer ${text}`));
  revokeKey(db, key.id, by());
  void accounts.refresh();
  assert.equal(refusal(accounts.identify(`Bearer ${text}`)), "unauthorized");
});

test("a key that was looked up before it existed works after it is created", (t) => {
  const { db, clock, issue, open } = accountsFixture(t);
  const { key, text } = issue();
  const { hash } = db.prepare("SELECT hash FROM keys").get() ?? {};
  assert.ok(typeof hash === "string");
  // Deletes the key as if it had not been created yet, because the text of a future key cannot be known.
  db.prepare("UPDATE keys SET hash = ?").run("0".repeat(64));
  const accounts = open();
  assert.equal(refusal(accounts.identify(`Bearer ${text}`)), "unauthorized");
  db.prepare("UPDATE keys SET hash = ?").run(hash);
  db.prepare(
    "INSERT INTO changes (at, actor, action, workspace_id, key_id, details) VALUES (0, '', 'key.create', ?, ?, '{}')",
  ).run(key.workspaceId, key.id);
  clock.advance(pollMs);
  assert.equal(known(accounts.identify(`Bearer ${text}`)).key.id, key.id);
});

test("a change creates new principals only for the affected keys", (t) => {
  const { db, by, clock, issue, open } = accountsFixture(t);
  const [first, second] = [issue(), issue()];
  const accounts = open();
  const before = [first, second].map(({ text }) => known(accounts.identify(`Bearer ${text}`)));
  const after = (): unknown[] => {
    clock.advance(pollMs);
    return [first, second].map(({ text }) => accounts.identify(`Bearer ${text}`));
  };
  // A change of another key, and the creation of these two, which is older than the state in memory.
  issue();
  assert.deepEqual(
    after().map((each, i) => each === before[i]),
    [true, true],
  );
  rotateKey(db, first.key.id, hour, by());
  assert.deepEqual(
    after().map((each, i) => each === before[i]),
    [false, true],
  );
});

test("changes of plan, limit, purchases and pending plan of a workspace apply to all its keys", (t) => {
  const { db, by, clock, workspace, issue, open } = accountsFixture(t);
  const headers = [issue(), issue()].map(({ text }) => `Bearer ${text}`);
  const accounts = open();
  const seen = (): ReturnType<typeof known>[] => {
    clock.advance(pollMs);
    return headers.map((header) => known(accounts.identify(header)));
  };
  seen();
  setWorkspace(db, workspace.id, { plan: "startup", overageLimitCuMilli: 9 }, by());
  for (const principal of seen()) {
    assert.deepEqual([principal.plan.name, principal.rps], ["startup", 50]);
    assert.equal(principal.workspace.overageLimitCuMilli, 9);
  }
  purchase(db, workspace.id, 77, by());
  for (const { workspace: now } of seen()) assert.equal(now.purchasedTotalMilliCu, 77);
  downgrade(db, workspace.id, { plan: "free", at: clock.now() + day }, by());
  for (const { workspace: now } of seen()) assert.equal(now.pendingPlan, "free");
  clock.jump(day);
  for (const principal of seen()) assert.equal(principal.plan.name, "free");
  assert.equal(accounts.stats().lookups, 2);
});

test("many changes at once are all seen", (t) => {
  const { db, by, clock, issue, open } = accountsFixture(t);
  const issued = Array.from({ length: 50 }, () => issue());
  const accounts = open();
  for (const { text } of issued) known(accounts.identify(`Bearer ${text}`));
  issued.forEach(({ key }, i) => {
    if (i % 2 === 0) revokeKey(db, key.id, by());
  });
  clock.advance(pollMs);
  issued.forEach(({ text }, i) => {
    const expected = i % 2 === 0 ? "anonymous" : "key";
    assert.equal(atOnce(accounts.identify(`Bearer ${text}`)).kind, expected);
  });
});

test("changes that a lock delays are seen after its release, and cached keys work meanwhile", (t) => {
  const { db, by, clock, issue, open } = accountsFixture(t);
  const { key, text } = issue();
  const stranger = issue();
  const accounts = open();
  const principal = known(accounts.identify(`Bearer ${text}`));
  db.exec("BEGIN EXCLUSIVE");
  revokeKey(db, key.id, by());
  clock.advance(10 * pollMs);
  assert.equal(accounts.identify(`Bearer ${text}`), principal);
  known(accounts.identify(`Bearer ${stranger.text}`));
  clock.advance(60_000);
  db.exec("COMMIT");
  clock.advance(pollMs);
  assert.equal(refusal(accounts.identify(`Bearer ${text}`)), "unauthorized");
  assert.equal(accounts.stats().healthy, true);
});

test("a change that is rolled back is never seen", (t) => {
  const { db, by, clock, issue, open } = accountsFixture(t);
  const { key, text } = issue();
  const accounts = open();
  const principal = known(accounts.identify(`Bearer ${text}`));
  db.exec("BEGIN IMMEDIATE");
  revokeKey(db, key.id, by());
  db.exec("ROLLBACK");
  clock.advance(pollMs);
  assert.equal(accounts.identify(`Bearer ${text}`), principal);
});

test("an unreadable database is logged once, cached keys work, and reading recovers", (t) => {
  const { db, by, clock, issue, open, lines } = accountsFixture(t);
  const { key, text } = issue();
  const stranger = issue();
  const accounts = open();
  const principal = known(accounts.identify(`Bearer ${text}`));
  db.exec("ALTER TABLE keys RENAME TO keys_elsewhere");
  revokeKeyElsewhere();
  clock.advance(4 * pollMs);
  assert.equal(accounts.identify(`Bearer ${text}`), principal);
  assert.deepEqual(accounts.identify(`Bearer ${stranger.text}`), { kind: "unavailable" });
  assert.equal(accounts.stats().healthy, false);
  assert.deepEqual(lines, ["error cannot read accounts; keys in memory stay valid"]);

  db.exec("ALTER TABLE keys_elsewhere RENAME TO keys");
  clock.advance(pollMs);
  assert.equal(refusal(accounts.identify(`Bearer ${text}`)), "unauthorized");
  assert.equal(known(accounts.identify(`Bearer ${stranger.text}`)).key.id, stranger.key.id);
  assert.equal(accounts.stats().healthy, true);
  assert.equal(lines.at(-1), "info accounts are readable again");

  function revokeKeyElsewhere(): void {
    db.prepare("UPDATE keys_elsewhere SET revoked_at = 1 WHERE id = ?").run(key.id);
    db.prepare(
      "INSERT INTO changes (at, actor, action, workspace_id, key_id, details) VALUES (?, 'test', 'key.revoke', ?, ?, '{}')",
    ).run(by().at, key.workspaceId, key.id);
  }
});

test("the last use of a key is on disk within a minute, and after the gateway stops", (t) => {
  const { db, clock, issue, open } = accountsFixture(t);
  const used = issue();
  const unused = issue();
  const accounts = open();
  void accounts.identify(`Bearer ${used.text}`);
  const first = clock.now();
  clock.advance(60_000);
  assert.equal(findKey(db, used.key.id)?.lastUsedAt, first);
  assert.equal(findKey(db, unused.key.id)?.lastUsedAt, undefined);

  void accounts.identify(`Bearer ${used.text}`);
  const second = clock.now();
  void accounts.close();
  assert.equal(findKey(db, used.key.id)?.lastUsedAt, second);
});

test("the last uses of more keys than one write holds are on disk 250 ms later", (t) => {
  const { db, clock, issue, open } = accountsFixture(t);
  db.exec("BEGIN");
  const texts = Array.from({ length: 1_001 }, () => issue().text);
  db.exec("COMMIT");
  const accounts = open();
  for (const text of texts) void accounts.identify(`Bearer ${text}`);
  const saved = (): unknown => db.prepare("SELECT count(*) AS n FROM key_use").get()?.["n"];
  clock.advance(60_000);
  assert.equal(saved(), 1_000);
  clock.advance(pollMs);
  assert.equal(saved(), 1_001);
});

test("a refused key does not count as used, and a last use never goes back", (t) => {
  const { db, clock, issue, open } = accountsFixture(t);
  const { key, text } = issue({ expiresAt: clock.now() + hour });
  const accounts = open();
  void accounts.identify(`Bearer ${text}`);
  const first = clock.now();
  clock.jump(hour);
  void accounts.identify(`Bearer ${text}`);
  clock.advance(60_000);
  assert.equal(findKey(db, key.id)?.lastUsedAt, first);
  clock.jump(-3 * hour);
  void accounts.identify(`Bearer ${text}`);
  clock.advance(60_000);
  assert.equal(findKey(db, key.id)?.lastUsedAt, first);
});

test("the last use before a revocation or an eviction is kept", (t) => {
  const { db, by, clock, issue, open } = accountsFixture(t);
  const issued = Array.from({ length: 4 }, () => issue());
  const accounts = open({ remember: { keys: 2, unknown: 2 } });
  for (const { text } of issued) void accounts.identify(`Bearer ${text}`);
  const at = clock.now();
  const revoked = issued.at(-1);
  assert.ok(revoked);
  revokeKey(db, revoked.key.id, by());
  clock.advance(60_000);
  assert.deepEqual(
    listKeys(db).map(({ lastUsedAt }) => lastUsedAt),
    [at, at, at, at],
  );
});

test("a last use that a lock prevents is written a minute later", (t) => {
  const { db, clock, issue, open, lines } = accountsFixture(t);
  const { key, text } = issue();
  const accounts = open();
  void accounts.identify(`Bearer ${text}`);
  const at = clock.now();
  db.exec("BEGIN IMMEDIATE");
  clock.advance(60_000);
  db.exec("ROLLBACK");
  assert.equal(findKey(db, key.id)?.lastUsedAt, undefined);
  assert.match(lines.join(), /warn cannot save the time of the last use of keys/);
  clock.advance(60_000);
  assert.equal(findKey(db, key.id)?.lastUsedAt, at);
  assert.equal(accounts.stats().healthy, true);
});

test("a closed service identifies cached keys, refuses others and does not throw", (t) => {
  const { clock, issue, open } = accountsFixture(t);
  const { text } = issue();
  const accounts = open();
  const principal = accounts.identify(`Bearer ${text}`);
  void accounts.close();
  void accounts.close();
  assert.equal(accounts.identify(`Bearer ${text}`), principal);
  const unavailable = { kind: "unavailable" };
  assert.deepEqual(accounts.identify(`Bearer ${issue().text}`), unavailable);
  assert.deepEqual(accounts.identify(`Bearer ${newKeyText("dev")}`), unavailable);
  clock.advance(hour);
});

test("changes by another process are seen by a running service", async (t) => {
  const { folder, db, workspace, issue, open } = accountsFixture(t);
  const { key, text } = issue();
  const accounts = open({ clock: systemClock });
  known(accounts.identify(`Bearer ${text}`));

  const created = await runModule(
    inOtherProcess(
      folder,
      `const { text } = createKey(db, { workspaceId: ${JSON.stringify(workspace.id)}, name: "", environment: "dev",
         capabilities: ["inference"] }, by);
       revokeKey(db, ${JSON.stringify(key.id)}, by);
       console.log(text);`,
    ),
  );
  assert.equal(created.err, "");
  await until(accounts, () => atOnce(accounts.identify(`Bearer ${text}`)).kind === "anonymous");
  const principal = known(accounts.identify(`Bearer ${created.out.trim()}`));

  const moved = await runModule(
    inOtherProcess(
      folder,
      `setWorkspace(db, ${JSON.stringify(workspace.id)}, { plan: "enterprise" }, by);`,
    ),
  );
  assert.equal(moved.err, "");
  const planNow = (): string => known(accounts.identify(`Bearer ${created.out.trim()}`)).plan.name;
  await until(accounts, () => planNow() === "enterprise");
  assert.equal(principal.plan.name, "developer");
  assert.equal(listKeys(db).length, 2);
});

/** Returns code that runs `work` with the accounts in `folder`. */
function inOtherProcess(folder: string, work: string): string {
  return `
    const { openAccountsDatabase } = await import(${JSON.stringify(sourceUrl("plugins/billing/accounts/embedded/schema.ts"))});
    const { createKey, revokeKey } = await import(${JSON.stringify(sourceUrl("plugins/billing/accounts/embedded/keys.ts"))});
    const { setWorkspace } = await import(${JSON.stringify(sourceUrl("plugins/billing/accounts/embedded/workspaces.ts"))});
    const db = openAccountsDatabase(${JSON.stringify(folder)});
    const by = { actor: "other", at: Date.now() };
    ${work}
    db.close();`;
}

/**
 * Waits for a condition for much longer than the second that the specification allows, because the machine may be busy.
 */
async function until(accounts: AccountsService, condition: () => boolean): Promise<void> {
  for (let waited = 0; !condition(); waited += 20) {
    assert.ok(waited < 10_000, `not seen: ${JSON.stringify(accounts.stats())}`);
    await delay(20);
  }
}
