import type { TestContext } from "node:test";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type {
  Caller,
  ChangeAuthor,
  IssuedKey,
  KeyPrincipal,
  NewKey,
  Workspace,
} from "sluice-gateway/services";
import type { AccountStore } from "../../../../plugins/billing/accounts/account-store.ts";
import { type Plans, defaultCapabilities } from "../../../../plugins/billing/accounts/principal.ts";
import {
  AccountsService,
  type AccountsOptions,
} from "../../../../plugins/billing/accounts/accounts.ts";
import type { Awaitable } from "../../../../src/plugin.ts";
import { manualClock, type ManualClock } from "../../../../src/testing/clock.ts";
import { temporaryFolder } from "../../../store/folder.ts";
import { openFolderSql, type TestSql } from "../../../store/open-sql.ts";
import { openAccountsOn, openFolderAccounts } from "./open-accounts.ts";
import { keptLog } from "../../../test-log.ts";
import { createSession } from "../../../../src/store/session.ts";

export const plans: Plans = {
  free: { rps: 2, includedMilliCu: 10_000_000_000, overageUsdPerCu: undefined, maxKeys: 10 },
  developer: { rps: 10, includedMilliCu: 29_000_000_000, overageUsdPerCu: "0.001", maxKeys: 50 },
  startup: { rps: 50, includedMilliCu: 99_000_000_000, overageUsdPerCu: "0.001", maxKeys: 250 },
  enterprise: {
    rps: 200,
    includedMilliCu: 499_000_000_000,
    overageUsdPerCu: "0.001",
    maxKeys: 1000,
  },
};

export const hour = 3_600_000;

export interface AccountsFixture {
  readonly folder: string;
  readonly sql: TestSql;
  /** The accounts as a command uses them, in another transaction. */
  readonly store: AccountStore;
  /** A connection to the tables, for what no store does. */
  readonly db: DatabaseSync;
  readonly clock: ManualClock;
  readonly idle: () => Promise<void>;
  readonly by: () => ChangeAuthor;
  /** A workspace on the developer plan. */
  readonly workspace: Workspace;
  readonly issue: (wanted?: Partial<NewKey>) => Promise<IssuedKey>;
  readonly open: (options?: Partial<AccountsOptions>) => Promise<AccountsService>;
  readonly lines: readonly string[];
}

export async function accountsFixture(t: TestContext): Promise<AccountsFixture> {
  const folder = temporaryFolder(t);
  const clock = manualClock();
  const { store, sql: ofCommand } = await openFolderAccounts(t, folder, clock);
  const sql = await openFolderSql(t, folder, clock);
  const db = new DatabaseSync(join(folder, "state.db"));
  t.after(() => db.isOpen && db.close());
  const by = (): ChangeAuthor => ({ actor: "test", at: clock.now() });
  const workspace = await store.createWorkspace({ name: "Acme", plan: "developer" }, by());
  const { log, lines } = keptLog();
  return {
    folder,
    sql,
    store,
    db,
    clock,
    async idle() {
      await sql.idle();
      await ofCommand.idle();
    },
    by,
    workspace,
    async issue(wanted) {
      const key = {
        workspaceId: workspace.id,
        name: "a key",
        environment: "dev",
        capabilities: defaultCapabilities,
        ...wanted,
      } as const;
      const issued = await store.createKey(key, by());
      if ("failed" in issued) throw new Error(issued.message);
      return issued;
    },
    async open(options) {
      const own = await openAccountsOn(sql);
      await own.store.loadHashes();
      const session = createSession(sql.query, options?.clock ?? clock);
      const common = { store: own.store, session, environment: "dev", plans, clock, log } as const;
      const service = await AccountsService.open({ ...common, ...options });
      t.after(() => service.close());
      return service;
    },
    lines,
  };
}

export async function known(caller: Awaitable<Caller>): Promise<KeyPrincipal> {
  const principal = await caller;
  if (principal.kind === "key") return principal;
  throw new Error("reason" in principal ? `refused: ${principal.reason}` : principal.kind);
}

export async function refusal(caller: Awaitable<Caller>): Promise<string> {
  const principal = await caller;
  if (principal.kind === "anonymous") return principal.reason;
  throw new Error("key" in principal ? `identified as ${principal.key.id}` : principal.kind);
}
