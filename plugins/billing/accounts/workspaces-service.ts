/**
 * `workspaces` of the service `accounts`: operations on workspaces, on the accounts, the meter and the journal of the
 * running gateway.
 */
import type { DatabaseSync } from "node:sqlite";
import { threadModule } from "sluice-gateway/package-files";
import type { Clock, ComputeThreads, Log } from "sluice-gateway/plugin";
import type {
  ChangeAuthor,
  ChangedBy,
  Failed,
  UsageQuery,
  Workspace,
  WorkspaceAnswer,
  WorkspaceJson,
  Workspaces,
} from "sluice-gateway/services";
import { periodOf } from "../metering/periods.ts";
import { maxGroups, type UsageReportJob } from "../metering/usage-report.ts";
import type { AccountsService } from "./accounts.ts";
import { listChanges } from "./change-log.ts";
import { changeJson, workspaceJson } from "./json.ts";
import { cancelDowngrade, downgrade, upgrade } from "./plan-changes.ts";
import { checkAmount, findWorkspace, purchase } from "./workspaces.ts";

export interface WorkspacesDeps {
  readonly dataDir: string;
  readonly accounts: Pick<AccountsService, "read" | "write">;
  /** Returns the remaining purchased credit of a workspace, in milli-CU. */
  readonly purchasedLeft: (workspace: Workspace) => number;
  /** A pool with its own thread, so that a report does not delay other jobs. */
  readonly reports: ComputeThreads;
  readonly clock: Clock;
  readonly log: Log;
}

type Answer<T> = WorkspaceAnswer<T>;

const unavailable = { kind: "unavailable" } as const;
const notFound = { kind: "notFound" } as const;

const reportModule = threadModule("plugins/billing/metering/usage-report");

export function createWorkspaces(parts: WorkspacesDeps): Workspaces {
  const { accounts, clock, log } = parts;
  const show = (workspace: Workspace): WorkspaceJson =>
    workspaceJson(workspace, parts.purchasedLeft(workspace), clock.now());

  /**
   * Runs `work`, which makes the change and its log entry in one transaction. It joins a transaction that the caller
   * has opened.
   */
  const change = <T extends object, R>(
    by: ChangedBy,
    work: (db: DatabaseSync, by: ChangeAuthor) => T | Failed,
    shown: (result: T) => R,
  ): Answer<R> => {
    try {
      const at = clock.now();
      const result = accounts.write((db) => work(db, { ...by, at }));
      if (!("failed" in result)) return { kind: "done", value: shown(result) };
      if (result.failed === "notFound") return notFound;
      return { kind: "conflict", message: result.message };
    } catch (error) {
      log.error({ err: error }, "cannot change a workspace");
      return unavailable;
    }
  };
  const read = <T>(id: string, work: (db: DatabaseSync, workspace: Workspace) => T): Answer<T> => {
    try {
      return accounts.read((db): Answer<T> => {
        const workspace = findWorkspace(db, id);
        return workspace === undefined ? notFound : { kind: "done", value: work(db, workspace) };
      });
    } catch (error) {
      log.error({ err: error }, "a workspace could not be read");
      return unavailable;
    }
  };

  return {
    find: (id) => read(id, (_, workspace) => show(workspace)),
    upgrade: (id, plan, by) => change(by, (db, who) => upgrade(db, id, plan, who), show),
    downgrade: (id, plan, by) =>
      change(by, (db, who) => downgrade(db, id, { plan, at: periodOf(who.at).end }, who), show),
    cancelDowngrade: (id, by) => change(by, (db, who) => cancelDowngrade(db, id, who), show),
    purchase(id, amountMilliCu, by) {
      checkAmount(amountMilliCu);
      return change(
        by,
        (db, who) => purchase(db, id, amountMilliCu, who),
        ({ purchaseId, workspace }) => ({
          purchase_id: purchaseId,
          amount_cu_milli: amountMilliCu,
          workspace: show(workspace),
        }),
      );
    },
    changes: (id, page) =>
      read(id, (db) => listChanges(db, { ...page, workspaceId: id }).map(changeJson)),
    async usage(id, query, signal) {
      const found = read(id, () => undefined);
      return found.kind === "done" ? usageReport(parts, id, query, signal) : found;
    },
  };
}

async function usageReport(
  { dataDir, reports, clock, log }: WorkspacesDeps,
  workspaceId: string,
  query: UsageQuery,
  signal: AbortSignal | undefined,
): Promise<Answer<Uint8Array>> {
  const period = periodOf(clock.now());
  const { from = period.start, to = period.end, groupBy } = query;
  if (from > to) return { kind: "invalid", message: "the range ends before it starts" };
  const input: UsageReportJob = { dataDir, workspaceId, from, to, groupBy };
  const done = await reports.run({ module: reportModule, input, transfer: [], signal });
  if (done.ok) {
    if (done.bytes !== undefined) return { kind: "done", value: done.bytes };
    const message = `more than ${maxGroups} groups: shorten the range, or group by fewer members`;
    return { kind: "invalid", message };
  }
  if (done.reason !== "aborted") log.error({ reason: done.reason }, "a usage report was not made");
  return unavailable;
}
