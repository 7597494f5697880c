import type { TestContext } from "node:test";
import type { Clock, Postgres, Sql } from "../../../../src/plugin.ts";
import type { AccountStore } from "../../../../plugins/billing/accounts/account-store.ts";
import { joinTransactions } from "../../../../plugins/billing/accounts/joined-sql.ts";
import {
  openAccountStore,
  type SqlAccountStore,
} from "../../../../plugins/billing/accounts/sql-account-store.ts";
import { createSlots, type SlotStore } from "../../../../plugins/billing/accounts/slots.ts";
import type { Gateway } from "../../../../src/gateway/gateway.ts";
import { systemClock } from "../../../../src/base/clock.ts";
import { postgresSql } from "../../../../src/store/sql/postgres-sql.ts";
import { openFolderSql, withFolderSql, type TestSql } from "../../../store/open-sql.ts";

export interface OpenedAccounts {
  readonly store: SqlAccountStore;
  readonly slots: SlotStore;
}

export async function openAccountsOn(
  sql: Sql,
  isShared = false,
): Promise<OpenedAccounts & { readonly query: Sql["query"] }> {
  const joined = joinTransactions(sql);
  const store = await openAccountStore(joined, isShared);
  return { store, slots: createSlots(joined), query: joined.query };
}

/** Opens the accounts of a data folder, as a gateway does. They are closed after the test. */
export async function openFolderAccounts(
  t: Pick<TestContext, "after">,
  folder: string,
  clock: Clock = systemClock,
): Promise<OpenedAccounts & { readonly sql: TestSql }> {
  const sql = await openFolderSql(t, folder, clock);
  return { ...(await openAccountsOn(sql)), sql };
}

export function openPostgresAccounts(
  database: Postgres,
  clock: Pick<Clock, "after" | "monotonic"> = systemClock,
): ReturnType<typeof openAccountsOn> {
  return openAccountsOn(postgresSql(database, "accounts", clock), true);
}

/** Runs `work` on the accounts of a data folder, which a gateway may use at the same time. */
export function withFolderAccounts<T>(
  folder: string,
  work: (store: AccountStore) => Promise<T>,
): Promise<T> {
  return withFolderSql(folder, async (sql) => work((await openAccountsOn(sql)).store));
}

/** Resolves when a gateway has applied the changes that it is reading: three statements, which run in order. */
export async function followed(gateway: Pick<Gateway, "use">): Promise<void> {
  for (let statement = 0; statement < 5; statement++) {
    await gateway.use("accounts")?.admin.findKey("");
  }
}
