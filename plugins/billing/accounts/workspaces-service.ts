/**
 * `workspaces` and `admin` of the service `accounts`: operations of customers and of operators. A dry run has the whole
 * service without a store.
 */
import type { Clock, Host, Log } from "sluice-gateway/plugin";
import {
  setPrincipal,
  type Accounts,
  type ChangeAuthor,
  type ChangedBy,
  type Failed,
  type Metering,
  type UsageQuery,
  type Workspace,
  type WorkspaceAnswer,
  type WorkspaceJson,
  type Workspaces,
  type AccountsAdmin,
} from "sluice-gateway/services";
import { periodOf } from "../leases/months.ts";
import type { AccountStore } from "./account-store.ts";
import { checkAmount } from "./workspace-rules.ts";
import { changeJson, workspaceJson, keyJson } from "./json.ts";
import { keyState } from "./key-rules.ts";
import { applyDuePlan, defaultCapabilities, type Plans, unauthorized } from "./principal.ts";

export interface RunningAccounts extends Accounts {
  setPlans(plans: Plans): void;
}

interface OperationsDeps {
  readonly store: AccountStore;
  readonly metering: Pick<Metering, "purchasedLeft" | "usage">;
  readonly clock: Clock;
  readonly log: Log;
}

type Answer<T> = WorkspaceAnswer<T>;

const unavailable = { kind: "unavailable" } as const;
const notFound = { kind: "notFound" } as const;

export function createWorkspaces(deps: OperationsDeps): Workspaces {
  const { store, clock, log } = deps;
  const show = (workspace: Workspace): Promise<WorkspaceJson> => showWorkspace(deps, workspace);

  /** The change joins a transaction that the caller has opened. */
  const change = async <T extends object, R>(
    by: ChangedBy,
    work: (by: ChangeAuthor) => Promise<T | Failed>,
    shown: (result: T) => Promise<R>,
  ): Promise<Answer<R>> => {
    try {
      const result = await work({ ...by, at: clock.now() });
      if (!("failed" in result)) return { kind: "done", value: await shown(result) };
      if (result.failed === "notFound") return notFound;
      return { kind: "conflict", message: result.message };
    } catch (error) {
      log.error({ err: error }, "cannot change a workspace");
      return unavailable;
    }
  };
  const read = async <T>(
    id: string,
    work: (workspace: Workspace) => Promise<T>,
  ): Promise<Answer<T>> => {
    try {
      const workspace = await store.findWorkspace(id);
      if (workspace === undefined) return notFound;
      return { kind: "done", value: await work(workspace) };
    } catch (error) {
      log.error({ err: error }, "a workspace could not be read");
      return unavailable;
    }
  };

  return {
    find: (id) => read(id, show),
    upgrade: (id, plan, by) => change(by, (who) => store.upgrade(id, plan, who), show),
    downgrade: (id, plan, by) =>
      change(by, (who) => store.downgrade(id, { plan, at: periodOf(who.at).end }, who), show),
    cancelDowngrade: (id, by) => change(by, (who) => store.cancelDowngrade(id, who), show),
    purchase(id, amountMilliCu, by) {
      checkAmount(amountMilliCu);
      return change(
        by,
        (who) => store.purchase(id, amountMilliCu, who),
        async ({ purchaseId, workspace }) => ({
          purchase_id: purchaseId,
          amount_cu_milli: amountMilliCu,
          workspace: await show(workspace),
        }),
      );
    },
    changes: (id, page) =>
      read(id, async () => (await store.changes({ ...page, workspaceId: id })).map(changeJson)),
    async usage(id, query, signal) {
      const found = await read(id, () => Promise.resolve());
      return found.kind === "done" ? usageReport(deps, id, query, signal) : found;
    },
  };
}

async function usageReport(
  { metering, clock }: OperationsDeps,
  workspaceId: string,
  query: UsageQuery,
  signal: AbortSignal | undefined,
): Promise<Answer<Uint8Array>> {
  const period = periodOf(clock.now());
  const { from = period.start, to = period.end, groupBy } = query;
  if (from > to) return { kind: "invalid", message: "the range ends before it starts" };
  const report = await metering.usage.report({ workspaceId, from, to, groupBy }, signal);
  if (report.kind === "done") return { kind: "done", value: report.json };
  if (report.kind === "unavailable") return unavailable;
  const message = `more than ${report.maxGroups} groups: shorten the range, or group by fewer members`;
  return { kind: "invalid", message };
}

async function showWorkspace(
  { metering, clock }: OperationsDeps,
  workspace: Workspace,
): Promise<WorkspaceJson> {
  return workspaceJson(workspace, await metering.purchasedLeft(workspace), clock.now());
}

export function createAdmin(deps: OperationsDeps, plan: AccountsAdmin["plan"]): AccountsAdmin {
  const { store, clock } = deps;
  return {
    defaultCapabilities,
    plan,
    createWorkspace: (wanted, by) => store.createWorkspace(wanted, by),
    findWorkspace: async (id) => {
      const stored = await store.findWorkspace(id);
      return stored && applyDuePlan(stored, clock.now());
    },
    listWorkspaces: (limit) => store.listWorkspaces(limit),
    searchWorkspaces: (search) => store.searchWorkspaces(search),
    setWorkspace: (id, settings, by) => store.setWorkspace(id, settings, by),
    workspaceJson: (workspace) => showWorkspace(deps, workspace),
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

function noStore(): never {
  throw new Error("a dry run has no accounts");
}

/** The service `accounts` for a dry run, which starts the plugins that use it but serves no request. */
export function accountsWithoutStore(
  plans: Plans,
  { clock, log }: Pick<Host, "clock" | "log">,
): RunningAccounts {
  const answer = Promise.resolve(unavailable);
  // Every method fails.
  const store = new Proxy({}, { get: () => noStore }) as AccountStore;
  const metering = { purchasedLeft: noStore, usage: { report: noStore, spend: noStore } };
  const deps = { store, metering, clock, log };
  return {
    identify: () => unauthorized,
    identifyKey: () => unauthorized,
    identifyAgain: () => unauthorized,
    identifyClaims: () => unauthorized,
    setPrincipal,
    workspaces: createWorkspaces(deps),
    idempotency: { take: () => answer, once: () => answer },
    tickets: {
      issue: () => ({ ticket: "", expiresAt: 0 }),
      redeem: () => Promise.resolve({ principal: unauthorized, terms: undefined }),
    },
    admin: createAdmin(deps, (name) => ({ name, ...plans[name] })),
    overrides: () => new Map(),
    replaceOverrides: noStore,
    setPlans() {},
  };
}
