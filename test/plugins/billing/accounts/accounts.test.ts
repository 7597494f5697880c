/** The service `accounts` of a gateway on a data folder. test/contract/ has the tests of every store. */
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { after, test } from "node:test";
import * as fc from "fast-check";
import type { IssuedKey, NewKey, UsageReports } from "sluice-gateway/services";
import type { StoredKey } from "../../../../plugins/billing/accounts/account-store.ts";
import accountsPlugin from "../../../../plugins/billing/accounts/index.ts";
import { hashKey, newKeyText } from "../../../../plugins/billing/accounts/key-text.ts";
import { KeyLookups } from "../../../../plugins/billing/accounts/stored-keys.ts";
import { startTestGateway, testService } from "../../../../plugins/contracts/testing.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { fakeMetering } from "../../fakes.ts";
import { accountsFixture, hour, known, plans, refusal } from "./fixture.ts";
import { openAccountsOn } from "./open-accounts.ts";

const clock = manualClock();
const tested = await startTestGateway({
  pipeline: `version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
routes: [{ path: /x, methods: [GET], run: [], to: models }]
`,
  clock,
});
after(() => tested[Symbol.asyncDispose]());
const { gateway, workspaceId, lines } = tested;
const accounts = gateway.use("accounts") ?? assert.fail();
const { admin, workspaces } = accounts;
const folder = join(tested.folder, "data");
const by = { actor: "test", at: clock.now() };

/** Opens a connection to the tables, for what no service does. */
const openDatabase = (): DatabaseSync => new DatabaseSync(join(folder, "state.db"));

async function issue(wanted: Partial<NewKey> = {}): Promise<IssuedKey> {
  const { defaultCapabilities: capabilities } = admin;
  const key = { workspaceId, name: "a key", environment: "dev", capabilities } as const;
  const issued = await admin.createKey({ ...key, ...wanted }, by);
  assert.ok("text" in issued);
  return issued;
}

test("only the exact header of a key is accepted, and no header throws", async () => {
  const header = `Bearer ${tested.key}`;
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
  const { issue: issueOne, open, sql } = await accountsFixture(t);
  const { store } = await openAccountsOn(sql);
  const lookups: string[] = [];
  const findByHash: typeof store.findByHash = (hash) => {
    lookups.push(hash);
    return store.findByHash(hash);
  };
  const header = `Bearer ${(await issueOne()).text}`;
  const remember = { keys: 2, unknown: 10 };
  const service = await open({ remember, store: { ...store, findByHash } });
  const principal = await service.identify(header);
  const bad = Array.from({ length: 100 }, () => newKeyText("dev"));
  for (const text of bad) await service.identify(`Bearer ${text}`);
  assert.equal(service.identify(header), principal);
  // The last ones are remembered.
  for (const text of bad.slice(90)) await service.identify(`Bearer ${text}`);
  assert.equal(lookups.length, 101);
  await service.identify(`Bearer ${bad[89]}`);
  assert.deepEqual(lookups.slice(101), [hashKey(bad[89] ?? "")]);
});

test("a revoked or expired key does not reveal that it is bound to addresses", async () => {
  const bound = { allowedAddresses: ["10.0.0.1"], expiresAt: clock.now() + hour };
  const [expiring, revoked] = [await issue(bound), await issue(bound)];
  await admin.revokeKey(revoked.key.id, by);
  const refusalOf = ({ text }: IssuedKey): Promise<string> =>
    refusal(accounts.identify(`Bearer ${text}`, "10.0.0.2"));
  assert.equal(await refusalOf(revoked), "unauthorized");
  clock.advance(hour);
  assert.equal(await refusalOf(expiring), "api key has expired");
});

test(
  "an unreadable database is logged once, cached keys work, and reading recovers",
  { timeout: 20_000 },
  async () => {
    const [{ key, text }, stranger] = [await issue(), await issue()];
    const identify = (header: string) => accounts.identify(`Bearer ${header}`);
    const principal = await known(identify(text));
    const isReady = async (): Promise<boolean> => (await fetch(`${tested.adminUrl}/readyz`)).ok;
    const logged = (message: string): number =>
      lines.filter((line) => line.startsWith(message)).length;
    const untilLogged = async (message: string): Promise<void> => {
      while (logged(message) === 0) {
        clock.advance(250);
        await new Promise(setImmediate);
      }
    };
    const failed = "cannot read accounts; keys in memory stay valid";
    using db = openDatabase();
    db.prepare("UPDATE keys SET revoked_at = 1 WHERE id = ?").run(key.id);
    db.prepare(
      `INSERT INTO changes (at, actor, action, workspace_id, key_id, details)
     VALUES (0, 'test', 'key.revoke', ?, ?, '{}')`,
    ).run(workspaceId, key.id);
    db.exec("ALTER TABLE keys RENAME TO keys_elsewhere");
    await untilLogged(failed);
    assert.equal(await identify(text), principal);
    assert.deepEqual(await identify(stranger.text), { kind: "unavailable" });
    assert.equal(await isReady(), false);

    db.exec("ALTER TABLE keys_elsewhere RENAME TO keys");
    await untilLogged("accounts are readable again");
    assert.equal(logged(failed), 1);
    assert.equal(await refusal(identify(text)), "unauthorized");
    assert.equal((await known(identify(stranger.text))).key.id, stranger.key.id);
  },
);

test("a change that cannot be written has not happened, and the result is unavailable", async () => {
  using db = openDatabase();
  const author = { actor: "key_admin", requestId: "req-7" };
  const before = await admin.findWorkspace(workspaceId);
  db.exec("ALTER TABLE changes RENAME TO changes_elsewhere");
  assert.deepEqual(await workspaces.purchase(workspaceId, 5, author), { kind: "unavailable" });
  assert.equal((await workspaces.find(workspaceId)).kind, "done");
  db.exec("ALTER TABLE changes_elsewhere RENAME TO changes");
  assert.deepEqual(await admin.findWorkspace(workspaceId), before);
  assert.equal((await workspaces.purchase(workspaceId, 5, author)).kind, "done");
  assert.equal((await admin.findWorkspace(workspaceId))?.purchasedTotalMilliCu, 5);
});

test("the text of a key is not stored anywhere", async () => {
  const first = await issue();
  const second = await admin.rotateKey(first.key.id, hour, by);
  assert.ok("text" in second);
  const files = readdirSync(folder, { withFileTypes: true }).filter((file) => file.isFile());
  const stored = files.map(({ name }) => readFileSync(join(folder, name), "latin1")).join("\n");
  for (const text of [first.text, second.text]) {
    assert.ok(stored.includes(hashKey(text)));
    assert.ok(!stored.includes(text.slice(-32)));
  }
});

test("a capability that this release does not know grants nothing", async () => {
  const { key } = await issue({ capabilities: ["inference"] });
  using db = openDatabase();
  db.prepare("UPDATE keys SET capabilities = 'inference time-travel' WHERE id = ?").run(key.id);
  assert.deepEqual((await admin.findKey(key.id))?.capabilities, new Set(["inference"]));
});

test("the log is append-only", () => {
  using db = openDatabase();
  // Replacing deletes the old row without running the trigger that forbids it.
  const replace = `INSERT OR REPLACE INTO changes SELECT id, at, 'nobody', action, workspace_id,
    key_id, details, request_id FROM changes`;
  for (const statement of ["UPDATE changes SET actor = 'nobody'", "DELETE FROM changes", replace]) {
    assert.throws(() => db.exec(statement), /append-only/);
  }
});

// test/store/sql/state-file.test.ts has the tests of files that cannot be used.

test("plans have the terms of the specification, in milli-CU", () => {
  for (const [name, terms] of Object.entries(plans)) {
    assert.deepEqual(admin.plan(name as keyof typeof plans), { name, ...terms });
  }
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

test("a report covers the current month by default, and one that cannot be made is unavailable", async () => {
  const ranges: (readonly [number, number])[] = [];
  let made: Awaited<ReturnType<UsageReports["report"]>> = {
    kind: "done",
    json: new Uint8Array([1]),
  };
  const { usage, ...metering } = fakeMetering({});
  const report: UsageReports["report"] = ({ from, to }) => {
    ranges.push([from, to]);
    return Promise.resolve(made);
  };
  const services = { metering: { ...metering, usage: { ...usage, report } } };
  await using alone = await testService(accountsPlugin, { services });
  const { service, clock: now } = alone;
  const author = { actor: "test", at: now.now() };
  const { id } = await service.admin.createWorkspace({ name: "Acme", plan: "free" }, author);
  const query = { from: undefined, to: undefined, groupBy: ["day"] } as const;
  const done = { kind: "done", value: new Uint8Array([1]) };
  assert.deepEqual(await service.workspaces.usage(id, query), done);
  await service.workspaces.usage(id, { ...query, from: 1, to: 2 });
  assert.deepEqual(ranges, [
    [Date.UTC(2026, 0), Date.UTC(2026, 1)],
    [1, 2],
  ]);
  const backwards = await service.workspaces.usage(id, { ...query, from: 2, to: 1 });
  assert.equal(backwards.kind, "invalid");
  assert.equal(ranges.length, 2);

  made = { kind: "unavailable" };
  assert.deepEqual(await service.workspaces.usage(id, query), made);
  made = { kind: "tooManyGroups", maxGroups: 9 };
  assert.deepEqual(await service.workspaces.usage(id, query), {
    kind: "invalid",
    message: "more than 9 groups: shorten the range, or group by fewer members",
  });
});
