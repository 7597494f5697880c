/**
 * Accounts without a store, with which `sluice check` starts the plugins that use them. They never serve a request.
 */
import { setPrincipal, type Workspaces } from "sluice-gateway/services";
import { keyJson } from "./json.ts";
import { keyState } from "./key-rules.ts";
import { type Plans, defaultCapabilities, unauthorized } from "./principal.ts";
import type { RunningAccounts } from "./start.ts";

const unavailable = Promise.resolve({ kind: "unavailable" } as const);
const workspaces: Workspaces = {
  find: () => unavailable,
  upgrade: () => unavailable,
  downgrade: () => unavailable,
  cancelDowngrade: () => unavailable,
  purchase: () => unavailable,
  changes: () => unavailable,
  usage: () => unavailable,
};

function noStore(): never {
  throw new Error("a dry run has no accounts");
}

export function accountsWithoutStore(plans: Plans): RunningAccounts {
  return {
    identify: () => unauthorized,
    identifyKey: () => unauthorized,
    identifyAgain: () => unauthorized,
    identifyClaims: () => unauthorized,
    setPrincipal,
    workspaces,
    idempotency: { take: () => unavailable, once: () => unavailable },
    tickets: {
      issue: () => ({ ticket: "", expiresAt: 0 }),
      redeem: () => Promise.resolve({ principal: unauthorized, terms: undefined }),
    },
    admin: {
      defaultCapabilities,
      plan: (name) => ({ name, ...plans[name] }),
      createWorkspace: noStore,
      findWorkspace: noStore,
      listWorkspaces: noStore,
      searchWorkspaces: noStore,
      setWorkspace: noStore,
      workspaceJson: noStore,
      createKey: noStore,
      findKey: noStore,
      searchKeys: noStore,
      setKey: noStore,
      rotateKey: noStore,
      revokeKey: noStore,
      keyState: (key) => keyState(key, 0),
      keyJson: (key) => keyJson(key, 0),
      searchChanges: noStore,
    },
    overrides: () => new Map(),
    replaceOverrides: noStore,
    setPlans() {},
  };
}
