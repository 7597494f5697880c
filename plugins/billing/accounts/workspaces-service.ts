/**
 * `workspaces` of the service `accounts`: operations on workspaces, on the accounts and the meter of the running
 * gateway.
 */
import type { Awaitable, Clock, Log } from "sluice-gateway/plugin";
import type {
  ChangeAuthor,
  ChangedBy,
  Failed,
  UsageQuery,
  UsageReports,
  Workspace,
  WorkspaceAnswer,
  WorkspaceJson,
  Workspaces,
} from "sluice-gateway/services";
import { andThen, orElse } from "sluice-gateway/toolkit";
import { periodOf } from "../metering/periods.ts";
import type { AccountStore } from "./account-store.ts";
import { checkAmount } from "./check-amount.ts";
import { changeJson, workspaceJson } from "./json.ts";

export interface WorkspacesDeps {
  readonly store: AccountStore;
  /** Returns the remaining purchased credit of a workspace, in milli-CU. */
  readonly purchasedLeft: (workspace: Workspace) => Awaitable<number>;
  readonly usage: Pick<UsageReports, "report">;
  readonly clock: Clock;
  readonly log: Log;
}

type Answer<T> = WorkspaceAnswer<T>;

const unavailable = { kind: "unavailable" } as const;
const notFound = { kind: "notFound" } as const;

export function createWorkspaces(parts: WorkspacesDeps): Workspaces {
  const { store, clock, log } = parts;
  const show = (workspace: Workspace): Awaitable<WorkspaceJson> =>
    andThen(parts.purchasedLeft(workspace), (left) => workspaceJson(workspace, left, clock.now()));

  /** Returns the result of a change. The change joins a transaction that the caller has opened. */
  const change = <T extends object, R>(
    by: ChangedBy,
    work: (by: ChangeAuthor) => Awaitable<T | Failed>,
    shown: (result: T) => Awaitable<R>,
  ): Awaitable<Answer<R>> =>
    orElse(
      () =>
        andThen(work({ ...by, at: clock.now() }), (result): Awaitable<Answer<R>> => {
          if (!("failed" in result)) {
            return andThen(shown(result), (value): Answer<R> => ({ kind: "done", value }));
          }
          if (result.failed === "notFound") return notFound;
          return { kind: "conflict", message: result.message };
        }),
      (error) => {
        log.error({ err: error }, "cannot change a workspace");
        return unavailable;
      },
    );
  const read = <T>(
    id: string,
    work: (workspace: Workspace) => Awaitable<T>,
  ): Awaitable<Answer<T>> =>
    orElse(
      () =>
        andThen(store.findWorkspace(id), (workspace): Awaitable<Answer<T>> => {
          if (workspace === undefined) return notFound;
          return andThen(work(workspace), (value): Answer<T> => ({ kind: "done", value }));
        }),
      (error) => {
        log.error({ err: error }, "a workspace could not be read");
        return unavailable;
      },
    );

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
        ({ purchaseId, workspace }) =>
          andThen(show(workspace), (shown) => ({
            purchase_id: purchaseId,
            amount_cu_milli: amountMilliCu,
            workspace: shown,
          })),
      );
    },
    changes: (id, page) =>
      read(id, () =>
        andThen(store.changes({ ...page, workspaceId: id }), (changes) => changes.map(changeJson)),
      ),
    async usage(id, query, signal) {
      const found = await read(id, () => undefined);
      return found.kind === "done" ? usageReport(parts, id, query, signal) : found;
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
