/** Tests of the stores of accounts, idempotency and claims on PostgreSQL: gateways race, and connections break. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { Idempotency, IdempotentRequest, StoredResponse } from "sluice-gateway/services";
import type { RunSql } from "sluice-gateway/plugin";
import type { AccountStore } from "../../../../../plugins/billing/accounts/account-store.ts";
import { LeasedSlots } from "../../../../../plugins/billing/accounts/idempotency.ts";
import { systemClock } from "../../../../../src/base/clock.ts";
import { openClaims, type ClaimsService } from "../../../../../src/store/claims.ts";
import { postgresSql } from "../../../../../src/store/sql/postgres-sql.ts";
import { startFaultProxy, type FaultProxy } from "../../../../store/fault-proxy.ts";
import { runSql } from "../../../../store/servers.ts";
import { openPostgresAccounts } from "../open-accounts.ts";
import { accountsDatabase, type AccountsDatabase, type TestPool } from "./database.ts";
import { silentLog } from "../../../../test-log.ts";
import { noSession } from "../../../../../src/store/session.ts";

const by = { actor: "test", at: 1_000 };
const unreachable = { code: "SLUICE_STORE_UNREACHABLE" };
const request: IdempotentRequest = {
  apiKeyId: "key_1",
  key: "buy",
  fingerprint: "a".repeat(64),
};
const response: StoredResponse = {
  status: 201,
  contentType: undefined,
  contentEncoding: undefined,
  body: Buffer.from("bought"),
};

interface Replica {
  readonly store: AccountStore;
  /** Runs a statement, in the open transaction if there is one. */
  readonly query: RunSql;
  readonly pool: TestPool;
  readonly idempotency: Idempotency;
}

interface Setup {
  readonly database: AccountsDatabase;
  readonly proxy: FaultProxy;
  /** Connected through the proxy. */
  readonly one: Replica;
  /** Connected to the server. */
  readonly other: Replica;
  readonly id: string;
  /** Returns the purchased milli-CU and the number of purchases in the audit log. */
  readonly bought: () => Promise<unknown>;
}

async function setUp(t: TestContext): Promise<Setup> {
  const database = await accountsDatabase(t);
  const proxy = await startFaultProxy(Number(new URL(database.url).port));
  t.after(() => proxy[Symbol.asyncDispose]());
  const replica = async (port?: number): Promise<Replica> => {
    const pool = database.open({ statementMs: 2_000, ...(port !== undefined && { port }) });
    const { store, slots, query } = await openPostgresAccounts(pool);
    const idempotency = new LeasedSlots({ slots, clock: systemClock, log: silentLog });
    t.after(() => idempotency.close());
    return { store, query, pool, idempotency };
  };
  const [one, other] = [await replica(proxy.port), await replica()];
  const { id } = await other.store.createWorkspace({ name: "Acme", plan: "free" }, by);
  const bought = async (): Promise<unknown> => {
    const workspace = await other.store.findWorkspace(id);
    const changes = await other.store.changes({ workspaceId: id });
    const purchases = changes.filter(({ action }) => action === "workspace.purchase").length;
    return { milliCu: workspace?.purchasedTotalMilliCu, purchases };
  };
  return { database, proxy, one, other, id, bought };
}

test("a request with an idempotency key has its effect once, although the answers to its commits are lost", async (t) => {
  const { proxy, one, other, id, bought } = await setUp(t);
  const buy = async (): Promise<StoredResponse> => {
    await one.store.purchase(id, 5, by);
    return response;
  };
  proxy.dropAfter = "COMMIT";
  proxy.repliesToDrop = 1;
  assert.equal((await one.idempotency.once(request, buy)).kind, "ran");
  assert.equal(proxy.dropped, 1);
  for (const { idempotency } of [one, other]) {
    assert.equal((await idempotency.once(request, () => assert.fail())).kind, "replay");
  }
  assert.deepEqual(await bought(), { milliCu: 5, purchases: 1 });
});

test("a transaction whose connection breaks in the middle leaves nothing, and can be repeated", async (t) => {
  const { proxy, one, id, bought } = await setUp(t);
  const broken = async (): Promise<StoredResponse> => {
    await one.store.purchase(id, 5, by);
    proxy.reset();
    await one.store.purchase(id, 5, by);
    return response;
  };
  await assert.rejects(async () => one.idempotency.once(request, broken), unreachable);
  assert.deepEqual(await bought(), { milliCu: 0, purchases: 0 });
  const whole = async (): Promise<StoredResponse> => {
    await one.store.purchase(id, 5, by);
    return response;
  };
  assert.equal((await one.idempotency.once(request, whole)).kind, "ran");
  assert.deepEqual(await bought(), { milliCu: 5, purchases: 1 });
});

test("a change that waits too long for a transaction of another gateway fails, and does not happen later", async (t) => {
  const { one, other, id, bought } = await setUp(t);
  const held = Promise.withResolvers<void>();
  const locked = Promise.withResolvers<void>();
  const first = one.store.transaction(async () => {
    await one.store.purchase(id, 5, by);
    locked.resolve();
    await held.promise;
  });
  await locked.promise;
  await assert.rejects(other.store.purchase(id, 7, by));
  held.resolve();
  await first;
  assert.deepEqual(await bought(), { milliCu: 5, purchases: 1 });
});

test("a claim whose answer is lost fails, and nobody can claim the id again", async (t) => {
  const { proxy, one, other } = await setUp(t);
  const open = (pool: Setup["one"]["pool"]): Promise<ClaimsService> =>
    openClaims(postgresSql(pool, "claims"), noSession, systemClock, silentLog);
  const claims = await open(one.pool);
  const others = await open(other.pool);
  t.after(() => claims.close());
  t.after(() => others.close());
  proxy.dropAfter = "sluice.claims";
  proxy.repliesToDrop = 1;
  const until = Date.now() + 60_000;
  await assert.rejects(async () => claims.claim("ticket", until), unreachable);
  assert.equal(await claims.claim("ticket", until), false);
  assert.equal(await others.claim("ticket", until), false);
});

test("changes are numbered in the order of commits, so a reader that follows the numbers misses none", async (t) => {
  const { database, one, other } = await setUp(t);
  let after = 0;
  const seen: number[] = [];
  const read = async (): Promise<void> => {
    for (const { id } of await one.store.changes({ after })) {
      seen.push(id);
      after = id;
    }
  };
  let isDone = false;
  const reading = (async () => {
    while (!isDone) await read();
  })();
  // Each transaction takes its number early and commits later.
  await Promise.all(
    Array.from({ length: 30 }, async (_, n) => {
      const { store, query } = n % 2 === 0 ? one : other;
      await store.transaction(async () => {
        await store.createWorkspace({ name: String(n), plan: "free" }, by);
        await query("SELECT pg_sleep(0.01)");
      });
    }),
  );
  isDone = true;
  await reading;
  await read();
  const rows = await runSql(database.url, "SELECT id::int FROM sluice.changes ORDER BY id");
  assert.deepEqual(
    seen,
    rows.map(({ id }) => id),
  );
});
