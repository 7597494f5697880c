/** Runs the tests of the contracts on PostgreSQL, directly and through PgBouncer in transaction mode. */
import type { TestContext } from "node:test";
import { LeasedSlots } from "../../plugins/billing/accounts/idempotency.ts";
import type { AccountStore } from "../../plugins/billing/accounts/account-store.ts";
import { openStreamStore } from "../../plugins/confidential/confidential-relay/open-store.ts";
import type { StreamStore } from "../../plugins/confidential/confidential-relay/stream-store.ts";
import type { Sql } from "../../src/plugin.ts";
import { createMetrics } from "../../src/base/metrics.ts";
import { openClaims, type ClaimsService } from "../../src/store/claims.ts";
import type { PluginEntries } from "../../src/store/plugin-entries.ts";
import { createPluginEntries } from "../../src/store/plugin-storage.ts";
import { postgresSql } from "../../src/store/sql/postgres-sql.ts";
import { manualClock } from "../../src/testing/clock.ts";
import { openPostgresAccounts } from "../plugins/billing/accounts/open-accounts.ts";
import { accountsDatabase } from "../plugins/billing/accounts/postgres/database.ts";
import { runSql } from "../store/servers.ts";
import { describeAccountStore } from "./accounts.ts";
import { describeClaims } from "./claims.ts";
import { describeIdempotency, type IdempotencyReplica } from "./idempotency.ts";
import { describeStreamStore } from "./receipts.ts";
import { describeSql } from "./sql.ts";
import { describeStorage } from "./storage.ts";
import { describeWithPgBouncer } from "./through-pgbouncer.ts";
import { silentLog } from "../test-log.ts";
import { createSession } from "../../src/store/session.ts";

/** A replica renews the leases of its slots this often (plugins/billing/accounts/idempotency.ts). */
const renewMs = 20_000;

/** `port`: returns the port through which the stores connect, or undefined for the one of the server. */
function describeStores(name: string, port: () => number | undefined): void {
  const openDatabase = (
    t: TestContext,
    options: { readonly now?: number } = {},
  ): ReturnType<typeof accountsDatabase> => {
    const through = port();
    return accountsDatabase(t, { ...options, ...(through !== undefined && { port: through }) });
  };

  describeAccountStore(name, async (t) => {
    const database = await openDatabase(t);
    const open = async (): Promise<AccountStore> =>
      (await openPostgresAccounts(database.open())).store;
    return { one: await open(), other: await open(), restart: open };
  });

  describeIdempotency(name, async (t) => {
    const clock = manualClock();
    const database = await openDatabase(t, { now: clock.now() });
    const pools = [database.open(), database.open()] as const;
    const replica = async (pool: (typeof pools)[0]): Promise<IdempotencyReplica> => {
      const { store, slots } = await openPostgresAccounts(pool, clock);
      const idempotency = new LeasedSlots({ slots, clock, log: silentLog });
      t.after(() => idempotency.close());
      return { idempotency, store, die: () => idempotency.close() };
    };
    const [one, other] = [await replica(pools[0]), await replica(pools[1])];
    const by = { actor: "test", at: 1 };
    const { id } = await one.store.createWorkspace({ name: "Acme", plan: "developer" }, by);
    const pass = async (ms: number): Promise<void> => {
      await database.setTime(clock.now() + ms);
      // As in real time, leases are renewed before a sweep can delete their slots.
      const untilRenewed = Math.min(ms, renewMs);
      for (const step of [untilRenewed, ms - untilRenewed]) {
        clock.advance(step);
        for (const pool of pools) await pool.idle();
      }
    };
    return { one, other, workspaceId: id, pass };
  });

  describeStreamStore(name, async (t) => {
    const clock = manualClock();
    const database = await openDatabase(t, { now: clock.now() });
    const pool = database.open();
    const open = (): StreamStore => {
      const store = { sql: (lane: string) => postgresSql(pool, lane) };
      const opened = openStreamStore({ store, clock, log: silentLog, metrics: createMetrics() });
      t.after(() => opened.close());
      return opened;
    };
    const pass = async (ms: number): Promise<void> => {
      await database.setTime(clock.now() + ms);
      clock.advance(ms);
      await pool.idle();
    };
    return { one: open(), other: open(), pass, restart: open };
  });

  describeSql(name, async (t) => {
    const now = manualClock().now();
    const database = await openDatabase(t, { now });
    const open = (): Sql => postgresSql(database.open(), "test");
    return { one: open(), other: open(), now: () => now };
  });

  describeClaims(name, async (t) => {
    const clock = manualClock();
    const database = await openDatabase(t, { now: clock.now() });
    const pool = database.open();
    const wrongClock = manualClock(clock.now() - 3_600_000);
    const open = async (own = clock): Promise<ClaimsService> => {
      const sql = postgresSql(pool, "claims");
      const claims = await openClaims(sql, createSession(sql.query, own), own, silentLog);
      t.after(() => claims.close());
      return claims;
    };
    const pass = async (ms: number): Promise<void> => {
      await database.setTime(clock.now() + ms);
      clock.advance(ms);
      wrongClock.advance(ms);
      await pool.idle();
    };
    const other = await open(wrongClock);
    return { one: await open(), other, now: () => clock.now(), pass, restart: open };
  });

  describeStorage(name, async (t) => {
    const database = await openDatabase(t);
    const open = (): PluginEntries => createPluginEntries(postgresSql(database.open(), "storage"));
    const fill = async (count: number): Promise<void> => {
      await runSql(
        database.url,
        `INSERT INTO sluice.plugin_storage
           SELECT 'acme', 'n' || n, 'a' FROM generate_series(1, ${count}) AS n`,
      );
    };
    return { one: open(), other: open(), restart: open, fill };
  });
}

describeWithPgBouncer("PostgreSQL", describeStores);
