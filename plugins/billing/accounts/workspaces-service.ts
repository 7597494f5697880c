/** `workspaces` and `admin` of the service `accounts`: operations of customers and of operators. */
import type { Clock, Log } from "sluice-gateway/plugin";
import type {
  ChangeAuthor,
  ChangedBy,
  Failed,
  Metering,
  UsageQuery,
  UsageReports,
  Workspace,
  WorkspaceAnswer,
  WorkspaceJson,
  Workspaces,
  AccountsAdmin,
} from "sluice-gateway/services";
import { periodOf } from "../leases/months.ts";
import type { AccountStore } from "./account-store.ts";
import { checkAmount } from "./workspace-rules.ts";
import { changeJson, workspaceJson, keyJson } from "./json.ts";
import type { AccountsService } from "./accounts.ts";
import { keyState } from "./key-rules.ts";
import { applyDuePlan, defaultCapabilities } from "./principal.ts";

export interface WorkspacesDeps {
  readonly store: AccountStore;
  readonly purchasedLeft: Metering["purchasedLeft"];
  readonly usage: Pick<UsageReports, "report">;
  readonly clock: Clock;
  readonly log: Log;
}

type Answer<T> = WorkspaceAnswer<T>;

const unavailable = { kind: "unavailable" } as const;
const notFound = { kind: "notFound" } as const;

export function createWorkspaces(deps: WorkspacesDeps): Workspaces {
  const { store, clock, log } = deps;
  const show = async (workspace: Workspace): Promise<WorkspaceJson> =>
    workspaceJson(workspace, await deps.purchasedLeft(workspace), clock.now());

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
  { usage, clock }: WorkspacesDeps,
  workspaceId: string,
  query: UsageQuery,
  signal: AbortSignal | undefined,
): Promise<Answer<Uint8Array>> {
  const period = periodOf(clock.now());
  const { from = period.start, to = period.end, groupBy } = query;
  if (from > to) return { kind: "invalid", message: "the range ends before it starts" };
  const report = await usage.report({ workspaceId, from, to, groupBy }, signal);
  if (report.kind === "done") return { kind: "done", value: report.json };
  if (report.kind === "unavailable") return unavailable;
  const message = `more than ${report.maxGroups} groups: shorten the range, or group by fewer members`;
  return { kind: "invalid", message };
}

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
