/**
 * Tests of the state machine with which a gateway follows the accounts in PostgreSQL, with a manual clock: changes of
 * another gateway are seen, and keys in memory stop when the database is away.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { Caller, IssuedKey } from "sluice-gateway/services";
import { AccountsService } from "../../../../../plugins/billing/accounts/accounts.ts";
import type { SqlAccountStore } from "../../../../../plugins/billing/accounts/sql-account-store.ts";
import { newKeyText } from "../../../../../plugins/billing/accounts/key-text.ts";
import type { Clock } from "../../../../../src/plugin.ts";
import { manualClock, type ManualClock } from "../../../../../src/testing/clock.ts";
import { startFaultProxy, type FaultProxy } from "../../../../store/fault-proxy.ts";
import { runSql } from "../../../../store/servers.ts";
import { plans } from "../fixture.ts";
import { openPostgresAccounts } from "../open-accounts.ts";
import { untilBlocked } from "../../leases/ledger-connections.ts";
import { accountsDatabase, type AccountsDatabase, type TestPool } from "./database.ts";
import { keptLog, silentLog } from "../../../../test-log.ts";
import { followerMark } from "../../../../../plugins/billing/accounts/change-log.ts";
import { createMetrics } from "../../../../../src/base/metrics.ts";
import { PostgresReplicas } from "../../../../../src/store/postgres/replicas.ts";
import { createSeal } from "../../../../../src/store/seal.ts";
import { createSession } from "../../../../../src/store/session.ts";
import { postgresSql } from "../../../../../src/store/sql/postgres-sql.ts";

const pollMs = 250;
const unavailable: Caller = { kind: "unavailable" };
const by = { actor: "test", at: 1_000 };

interface Gateway {
  readonly accounts: AccountsService;
  readonly store: SqlAccountStore;
  readonly pool: TestPool;
  /** Identifies the caller with this key: its id, or the reason of the refusal. */
  readonly who: (key: IssuedKey | string) => Promise<string>;
  readonly lines: readonly string[];
  readonly close: () => Promise<void>;
}

interface Setup {
  readonly database: AccountsDatabase;
  readonly proxy: FaultProxy;
  /** Connected through the proxy. */
  readonly one: Gateway;
  /** Connected to the server. */
  readonly other: Gateway;
  readonly clock: ManualClock;
  readonly issue: () => Promise<IssuedKey>;
  /** Lets time pass, and waits for the statements that this starts. */
  readonly pass: (ms: number) => Promise<void>;
}

async function setUp(t: TestContext, given?: Clock, statementMs = 2_000): Promise<Setup> {
  const database = await accountsDatabase(t);
  const proxy = await startFaultProxy(Number(new URL(database.url).port));
  t.after(() => proxy[Symbol.asyncDispose]());
  const clock = manualClock();
  const gateway = async (port?: number): Promise<Gateway> => {
    const pool = database.open({ statementMs, ...(port !== undefined && { port }) });
    const { log, lines } = keptLog();
    const { store } = await openPostgresAccounts(pool, given ?? clock);
    const session = createSession(
      postgresSql(pool, "session", given ?? clock).query,
      given ?? clock,
    );
    const replicas = await PostgresReplicas.open({
      database: pool,
      session,
      seal: createSeal("test"),
      version: "test",
      clock: given ?? clock,
      log: silentLog,
      metrics: createMetrics(),
      settings: {},
    });
    const accounts = await AccountsService.open({
      store,
      session,
      onApplied: (change) => replicas.mark(followerMark, change),
      environment: "dev",
      plans,
      clock: given ?? clock,
      log,
      maxStaleMs: 5_000,
    });
    const close = async (): Promise<void> => {
      await accounts.close();
      await replicas.close();
    };
    t.after(close);
    const who = async (key: IssuedKey | string): Promise<string> => {
      const text = typeof key === "string" ? key : key.text;
      const caller = await accounts.identify(`Bearer ${text}`);
      if (caller.kind === "key") return caller.key.id;
      return caller.kind === "anonymous" ? caller.reason : caller.kind;
    };
    return { accounts, store, pool, who, lines, close };
  };
  const [one, other] = [await gateway(proxy.port), await gateway()];
  const { id: workspaceId } = await other.store.createWorkspace({ name: "Acme", plan: "free" }, by);
  const wanted = {
    workspaceId,
    name: "",
    environment: "dev",
    capabilities: ["inference"],
  } as const;
  const issue = async (): Promise<IssuedKey> => {
    const issued = await other.store.createKey(wanted, by);
    assert.ok("text" in issued);
    return issued;
  };
  const pass = async (ms: number): Promise<void> => {
    clock.advance(ms);
    await one.pool.idle();
    await other.pool.idle();
  };
  return { database, proxy, one, other, clock, issue, pass };
}

test("a revocation is seen within a second while commits wait, and with them the looks", async (t) => {
  const { database, one, other, clock, issue } = await setUp(t, undefined, 60_000);
  const key = await issue();
  assert.equal(await one.who(key), key.key.id);
  await database.open().transaction("block", async (run) => {
    await run("SELECT FROM sluice.gateways FOR UPDATE");
    clock.advance(pollMs);
    await untilBlocked(database.url);
    await other.store.revokeKey(key.key.id, by);
    clock.advance(1_000 - pollMs);
    for (const limit = Date.now() + 10_000; (await one.who(key)) !== "unauthorized";) {
      assert.ok(Date.now() < limit, "the key still works");
      await new Promise(setImmediate);
    }
  });
});

test("a look-up that began before a revocation does not bring the key back", async (t) => {
  const { one, other, issue, pass } = await setUp(t);
  const key = await issue();
  const held = Promise.withResolvers<void>();
  let isFirst = true;
  one.store.findByHash = async (hash) => {
    const found = await other.store.findByHash(hash);
    if (isFirst) {
      isFirst = false;
      await held.promise;
    }
    return found;
  };
  const asked = one.who(key);
  await other.pool.idle();
  await other.store.revokeKey(key.key.id, by);
  await pass(pollMs);
  held.resolve();
  assert.equal(await asked, "unauthorized");
});

test("keys in memory are valid for 5 seconds after PostgreSQL is gone, then callers are unavailable until it is back", async (t) => {
  const { proxy, one, issue, pass } = await setUp(t);
  const [known, stranger] = [await issue(), await issue()];
  const guess = newKeyText("dev");
  assert.equal(await one.who(known), known.key.id);
  assert.equal(await one.who(guess), "unauthorized");
  await pass(pollMs);

  proxy.refuses = true;
  proxy.reset();
  await pass(pollMs);
  assert.match(one.lines.join(), /^error cannot read accounts/);
  assert.equal(await one.who(stranger), "unavailable");
  await pass(5_000 - pollMs);
  assert.equal(await one.who(known), known.key.id);
  assert.equal(await one.who(guess), "unauthorized");
  await pass(1);
  assert.deepEqual(one.accounts.identify(`Bearer ${known.text}`), unavailable);
  assert.deepEqual(one.accounts.identify(`Bearer ${guess}`), unavailable);
  assert.deepEqual(await one.accounts.identifyKey(known.key.id, ""), unavailable);
  assert.equal(await one.who("not a key"), "invalid authorization format");
  await assert.rejects(async () => one.store.revokeKey(known.key.id, by), {
    code: "SLUICE_STORE_UNREACHABLE",
  });
  assert.deepEqual(one.lines, ["error cannot read accounts; keys in memory stay valid for 5 s"]);

  proxy.refuses = false;
  await pass(pollMs);
  assert.equal(await one.who(known), known.key.id);
  assert.equal(await one.who(stranger), stranger.key.id);
  assert.equal(one.lines.at(-1), "info accounts are readable again");
});

test("a gateway that stood still does not use its memory before it has asked again", async (t) => {
  const { one, clock, issue, pass } = await setUp(t);
  const key = await issue();
  assert.equal(await one.who(key), key.key.id);
  clock.advance(6_000);
  assert.deepEqual(one.accounts.identify(`Bearer ${key.text}`), unavailable);
  await pass(pollMs);
  assert.equal(await one.who(key), key.key.id);
});

test("after the database has lost changes, nothing in memory is used unchecked", async (t) => {
  const { database, one, other, issue, pass } = await setUp(t);
  const [kept, lost] = [await issue(), await issue()];
  for (const { who } of [one, other]) {
    assert.equal(await who(kept), kept.key.id);
    assert.equal(await who(lost), lost.key.id);
  }
  await pass(pollMs);
  await runSql(
    database.url,
    "ALTER TABLE sluice.changes DISABLE TRIGGER ALL",
    `DELETE FROM sluice.changes WHERE key_id = '${lost.key.id}'`,
    `DELETE FROM sluice.keys WHERE id = '${lost.key.id}'`,
    "ALTER TABLE sluice.changes ENABLE TRIGGER ALL",
  );
  await pass(pollMs);
  for (const { who, lines } of [one, other]) {
    assert.equal(await who(lost), "unauthorized");
    assert.equal(await who(kept), kept.key.id);
    assert.match(lines.join(), /^warn the database has lost changes of accounts/);
  }
});

test("keys that do not exist reach the database only a few times between two reads of the changes", async (t) => {
  const { one, other, issue, pass } = await setUp(t);
  const old = await issue();
  await one.store.loadHashes();
  await pass(pollMs);
  let lookups = 0;
  const query = one.pool.query.bind(one.pool);
  one.pool.query = (lane, statement, values) => {
    if (statement.includes("WHERE hash IN")) lookups++;
    return query(lane, statement, values);
  };
  for (let n = 0; n < 100; n++) assert.equal(await one.who(newKeyText("dev")), "unauthorized");
  assert.equal(lookups, 5);
  assert.equal(await one.who(old), old.key.id, "a key from before");
  const fresh = await issue();
  assert.equal(await one.who(fresh), "unauthorized", "the change has not been read");
  await pass(pollMs);
  assert.equal(await one.who(fresh), fresh.key.id);
  assert.equal(await other.who(fresh), fresh.key.id, "a gateway without the hashes");
  const latest = await issue();
  assert.equal(await one.who(latest), latest.key.id, "a few keys are looked up");
});

test("while the changes cannot be read, a key that seems not to exist is not refused", async (t) => {
  const { proxy, one, pass } = await setUp(t);
  await one.store.loadHashes();
  await pass(pollMs);
  proxy.refuses = true;
  proxy.reset();
  await pass(pollMs);
  for (let n = 0; n < 10; n++) assert.equal(await one.who(newKeyText("dev")), "unavailable");
});
