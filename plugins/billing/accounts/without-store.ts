/** Accounts without a store, for `sluice check`, which starts the plugins that use them but serves no request. */
import type { Host } from "sluice-gateway/plugin";
import { setPrincipal } from "sluice-gateway/services";
import type { AccountStore } from "./account-store.ts";
import { type Plans, unauthorized } from "./principal.ts";
import type { RunningAccounts } from "./start.ts";
import { createAdmin, createWorkspaces } from "./workspaces-service.ts";

const unavailable = Promise.resolve({ kind: "unavailable" } as const);

function noStore(): never {
  throw new Error("a dry run has no accounts");
}

// Every method fails.
const store = new Proxy({}, { get: () => noStore }) as AccountStore;

export function accountsWithoutStore(
  plans: Plans,
  { clock, log }: Pick<Host, "clock" | "log">,
): RunningAccounts {
  const accounts = { store, plan: (name: keyof Plans) => ({ name, ...plans[name] }) };
  const common = { store, purchasedLeft: noStore, clock };
  return {
    identify: () => unauthorized,
    identifyKey: () => unauthorized,
    identifyAgain: () => unauthorized,
    identifyClaims: () => unauthorized,
    setPrincipal,
    workspaces: createWorkspaces({ ...common, usage: { report: noStore }, log }),
    idempotency: { take: () => unavailable, once: () => unavailable },
    tickets: {
      issue: () => ({ ticket: "", expiresAt: 0 }),
      redeem: () => Promise.resolve({ principal: unauthorized, terms: undefined }),
    },
    admin: createAdmin({ ...common, accounts }),
    overrides: () => new Map(),
    replaceOverrides: noStore,
    setPlans() {},
  };
}
