/** `admin` of the service `accounts`. */
import type { Clock } from "sluice-gateway/plugin";
import type { AccountsAdmin, Workspace } from "sluice-gateway/services";
import type { AccountsService } from "./accounts.ts";
import { keyJson, workspaceJson } from "./json.ts";
import { createKey, findKey, keyState, revokeKey, rotateKey } from "./keys.ts";
import { applyDuePlan, defaultCapabilities } from "./plans.ts";
import { searchKeys } from "./search-keys.ts";
import { createWorkspace, findWorkspace, listWorkspaces } from "./workspaces.ts";

interface AdminDeps {
  readonly accounts: Pick<AccountsService, "read" | "write" | "plan">;
  readonly purchasedLeft: (workspace: Workspace) => number;
  readonly clock: Clock;
}

export function createAdmin({ accounts, purchasedLeft, clock }: AdminDeps): AccountsAdmin {
  return {
    defaultCapabilities,
    plan: (name) => accounts.plan(name),
    createWorkspace: (wanted, by) => accounts.write((db) => createWorkspace(db, wanted, by)),
    findWorkspace(id) {
      const stored = accounts.read((db) => findWorkspace(db, id));
      return stored && applyDuePlan(stored, clock.now());
    },
    listWorkspaces: (limit) => accounts.read((db) => listWorkspaces(db, limit)),
    workspaceJson: (workspace) => workspaceJson(workspace, purchasedLeft(workspace), clock.now()),
    createKey: (wanted, by) => accounts.write((db) => createKey(db, wanted, by)),
    findKey: (id) => accounts.read((db) => findKey(db, id)),
    searchKeys: (search) => accounts.read((db) => searchKeys(db, search)),
    rotateKey: (id, overlapMs, by) => accounts.write((db) => rotateKey(db, id, overlapMs, by)),
    revokeKey: (id, by) => accounts.write((db) => revokeKey(db, id, by)),
    keyState: (key) => keyState(key, clock.now()),
    keyJson: (key) => keyJson(key, clock.now()),
  };
}
