/** `admin` of the service `accounts`. */
import type { Clock } from "sluice-gateway/plugin";
import type { AccountsAdmin, Metering } from "sluice-gateway/services";
import type { AccountsService } from "./accounts.ts";
import { changeJson, keyJson, workspaceJson } from "./json.ts";
import { keyState } from "./key-rules.ts";
import { applyDuePlan, defaultCapabilities } from "./principal.ts";

interface AdminDeps {
  readonly accounts: Pick<AccountsService, "store" | "plan">;
  readonly purchasedLeft: Metering["purchasedLeft"];
  readonly clock: Clock;
}

export function createAdmin({ accounts, purchasedLeft, clock }: AdminDeps): AccountsAdmin {
  const { store } = accounts;
  return {
    defaultCapabilities,
    plan: (name) => accounts.plan(name),
    createWorkspace: (wanted, by) => store.createWorkspace(wanted, by),
    findWorkspace: async (id) => {
      const stored = await store.findWorkspace(id);
      return stored && applyDuePlan(stored, clock.now());
    },
    listWorkspaces: (limit) => store.listWorkspaces(limit),
    searchWorkspaces: (search) => store.searchWorkspaces(search),
    setWorkspace: (id, settings, by) => store.setWorkspace(id, settings, by),
    workspaceJson: async (workspace) =>
      workspaceJson(workspace, await purchasedLeft(workspace), clock.now()),
    createKey: (wanted, by) => store.createKey(wanted, by),
    findKey: (id) => store.findKey(id),
    searchKeys: (search) => store.searchKeys(search),
    rotateKey: (id, overlapMs, by) => store.rotateKey(id, overlapMs, by),
    setKey: (id, settings, by) => store.setKey(id, settings, by),
    revokeKey: (id, by) => store.revokeKey(id, by),
    keyState: (key) => keyState(key, clock.now()),
    keyJson: (key) => keyJson(key, clock.now()),
    searchChanges: async (search) => (await store.searchChanges(search)).map(changeJson),
  };
}
