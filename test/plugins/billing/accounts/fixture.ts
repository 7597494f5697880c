/** Accounts for one test: a folder, a database, a manual clock, and the service. */
import type { TestContext } from "node:test";
import type { DatabaseSync } from "node:sqlite";
import type {
  Caller,
  ChangeAuthor,
  IssuedKey,
  KeyPrincipal,
  NewKey,
  Workspace,
} from "sluice-gateway/services";
import { createKey } from "../../../../plugins/billing/accounts/embedded/keys.ts";
import type { Plans } from "../../../../plugins/billing/accounts/principal.ts";
import { openGatewayAccountStore } from "../../../../plugins/billing/accounts/embedded/embedded-account-store.ts";
import { openAccountsDatabase } from "../../../../plugins/billing/accounts/embedded/schema.ts";
import {
  openAccounts,
  type AccountsOptions,
  type AccountsService,
} from "../../../../plugins/billing/accounts/accounts.ts";
import { defaultCapabilities } from "../../../../plugins/billing/accounts/plans.ts";
import { createWorkspace } from "../../../../plugins/billing/accounts/embedded/workspaces.ts";
import type { Awaitable } from "../../../../src/plugin.ts";
import { atOnce } from "../../../../plugins/contracts/at-once.ts";
import { manualClock, type ManualClock } from "../../../../src/testing/clock.ts";
import { temporaryFolder } from "../../../store/folder.ts";
import { keptLog } from "../../../test-log.ts";

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
export const day = 24 * hour;

export interface AccountsFixture {
  readonly folder: string;
  /** A separate connection, like that of a command in another process. */
  readonly db: DatabaseSync;
  readonly clock: ManualClock;
  /** Returns the author of changes by the test, with the current time. */
  readonly by: () => ChangeAuthor;
  /** A workspace on the developer plan. */
  readonly workspace: Workspace;
  /** Issues a key in that workspace. */
  readonly issue: (wanted?: Partial<NewKey>) => IssuedKey;
  /** Starts the service; it is closed when the test ends. */
  readonly open: (options?: Partial<AccountsOptions>) => AccountsService;
  /** Lines that the service logged: level and message. */
  readonly lines: readonly string[];
}

export function accountsFixture(t: TestContext): AccountsFixture {
  const folder = temporaryFolder(t);
  const clock = manualClock();
  const db = openAccountsDatabase(folder);
  t.after(() => db.isOpen && db.close());
  const by = (): ChangeAuthor => ({ actor: "test", at: clock.now() });
  const workspace = createWorkspace(db, { name: "Acme", plan: "developer" }, by());
  const { log, lines } = keptLog();
  return {
    folder,
    db,
    clock,
    by,
    workspace,
    issue(wanted) {
      const issued = createKey(
        db,
        {
          workspaceId: workspace.id,
          name: "a key",
          environment: "dev",
          capabilities: defaultCapabilities,
          ...wanted,
        },
        by(),
      );
      if ("failed" in issued) throw new Error(issued.message);
      return issued;
    },
    open(options) {
      const service = atOnce(
        openAccounts({
          store: openGatewayAccountStore(folder, clock),
          environment: "dev",
          plans,
          clock,
          log,
          ...options,
        }),
      );
      t.after(() => service.close());
      return service;
    },
    lines,
  };
}

/** Returns the principal of a key. Fails the test if the caller is anonymous. */
export function known(caller: Awaitable<Caller>): KeyPrincipal {
  const principal = atOnce(caller);
  if (principal.kind === "key") return principal;
  throw new Error("reason" in principal ? `refused: ${principal.reason}` : principal.kind);
}

/** Returns the reason why the caller is anonymous. Fails the test if there is a key. */
export function refusal(caller: Awaitable<Caller>): string {
  const principal = atOnce(caller);
  if (principal.kind === "anonymous") return principal.reason;
  throw new Error("key" in principal ? `identified as ${principal.key.id}` : principal.kind);
}
