/** The accounts of a data folder. test/contract/accounts.ts and callers.ts have the tests of every store. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { newKeyText, hashKey } from "../../../../plugins/billing/accounts/key-text.ts";
import { accountsFixture, hour, known, refusal } from "./fixture.ts";
import type { DatabaseSync } from "node:sqlite";
import type { ApiKey } from "sluice-gateway/services";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "../../../store/folder.ts";
import { openFolderAccounts } from "./open-accounts.ts";
import accountsPlugin from "../../../../plugins/billing/accounts/index.ts";
import { plansOf, type Options } from "../../../../plugins/billing/accounts/options.ts";
import type { Plans } from "../../../../plugins/billing/accounts/principal.ts";
import { parseConfig } from "../../../../src/config/read.ts";
import type { StoredKey } from "../../../../plugins/billing/accounts/account-store.ts";
import { KeyLookups } from "../../../../plugins/billing/accounts/stored-keys.ts";

test("only the exact header of a key is accepted, and no header throws", async (t) => {
  const { issue, open } = await accountsFixture(t);
  const { text } = await issue();
  const header = `Bearer ${text}`;
  const accounts = await open();
  const spoiled = fc
    .record({ at: fc.nat(header.length), take: fc.nat(2), put: fc.string({ maxLength: 2 }) })
    .map(({ at, take, put }) => header.slice(0, at) + put + header.slice(at + take));
  await fc.assert(
    fc.asyncProperty(fc.oneof(spoiled, fc.string({ unit: "binary" })), async (line) => {
      assert.equal((await accounts.identify(line)).kind === "key", line === header, line);
    }),
    { numRuns: 1_000 },
  );
});

test("a flood of bad keys stays within the limits and evicts no valid key", async (t) => {
  const { issue, open } = await accountsFixture(t);
  const header = `Bearer ${(await issue()).text}`;
  const accounts = await open({ remember: { keys: 2, unknown: 10 } });
  const principal = await accounts.identify(header);
  await Promise.all(
    Array.from({ length: 100 }, async () => accounts.identify(`Bearer ${newKeyText("dev")}`)),
  );
  assert.equal(accounts.identify(header), principal);
  assert.deepEqual(accounts.stats(), { healthy: true, keys: 1, unknown: 10, lookups: 101 });
});

test("a revoked or expired key does not reveal that it is bound to addresses", async (t) => {
  const { by, clock, issue, open, store } = await accountsFixture(t);
  const bound = { allowedAddresses: ["10.0.0.1"], expiresAt: clock.now() + hour };
  const [expiring, revoked] = [await issue(bound), await issue(bound)];
  await store.revokeKey(revoked.key.id, by());
  const accounts = await open();
  assert.equal(
    await refusal(accounts.identify(`Bearer ${revoked.text}`, "10.0.0.2")),
    "unauthorized",
  );
  clock.jump(hour);
  const late = await accounts.identify(`Bearer ${expiring.text}`, "10.0.0.2");
  assert.equal(await refusal(late), "api key has expired");
});

const pollMs = 250;

/** Revokes a key in the transaction of this connection. */
function revokeWith(db: DatabaseSync, { id, workspaceId }: ApiKey): void {
  db.prepare("UPDATE keys SET revoked_at = 1 WHERE id = ?").run(id);
  db.prepare(
    "INSERT INTO changes (at, actor, action, workspace_id, key_id, details) VALUES (0, 'test', 'key.revoke', ?, ?, '{}')",
  ).run(workspaceId, id);
}

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

test("a capability that this release does not know grants nothing", async (t) => {
  const { db, issue, store } = await accountsFixture(t);
  const { key } = await issue({ capabilities: ["inference"] });
  db.prepare("UPDATE keys SET capabilities = 'inference time-travel' WHERE id = ?").run(key.id);
  assert.deepEqual((await store.findKey(key.id))?.capabilities, new Set(["inference"]));
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

// test/store/sql/state-file.test.ts has the tests of files that cannot be used.

test("the first start creates a private folder with an empty database", async (t) => {
  const folder = join(temporaryFolder(t), "new", "data");
  const { store } = await openFolderAccounts(t, folder);
  assert.deepEqual(await store.listWorkspaces(), []);
  assert.equal(statSync(folder).mode & 0o777, 0o700);
  assert.equal(statSync(join(folder, "state.db")).mode & 0o777, 0o600);
});

const routes = "routes: [{ path: /a, to: echo }]\n";

function read(text: string): Plans {
  const { config, faults } = parseConfig(text, "/pipeline.yaml", {}, [accountsPlugin]);
  assert.deepEqual(faults, []);
  // The file was checked with the schema of the service.
  return plansOf(config?.sections as unknown as Options);
}

test("plans have the terms of the specification, in milli-CU", () => {
  const plan = (
    rps: number,
    includedCu: number,
    overageUsdPerCu: string | undefined,
    maxKeys: number,
  ): object => {
    return { rps, includedMilliCu: includedCu * 1_000, overageUsdPerCu, maxKeys };
  };
  assert.deepEqual(read(`version: 1\n${routes}`), {
    free: plan(2, 10_000_000, undefined, 10),
    developer: plan(10, 29_000_000, "0.001", 50),
    startup: plan(50, 99_000_000, "0.001", 250),
    enterprise: plan(200, 499_000_000, "0.001", 1_000),
  });
});

test("a statement has at most 500 hashes, and more than 5,000 may not wait", async () => {
  const held: { hashes: readonly string[]; answer: PromiseWithResolvers<readonly StoredKey[]> }[] =
    [];
  const lookups = new KeyLookups((hashes) => {
    const answer = Promise.withResolvers<readonly StoredKey[]>();
    held.push({ hashes, answer });
    return answer.promise;
  });
  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  const all = Array.from({ length: 5_001 }, (_, n) => lookups.find(`hash ${n}`));
  await assert.rejects(lookups.find("one more"), { code: "SLUICE_STORE_BUSY" });
  held[0]?.answer.resolve([]);
  await turn();
  assert.equal(held[1]?.hashes.length, 500);
  while (held.length > 0) {
    held.shift()?.answer.resolve([]);
    await turn();
  }
  await Promise.all(all);
});
