/**
 * Decides how much credit of a scope a replica may use. The function is pure: MemoryLedger calls it with rows in
 * memory, and PostgresLedger with rows of the database.
 */
import { windowState, type RollingWindow } from "../metering/windows.ts";
import type { Granted, LimitReached, Want, WorkspaceLimits } from "./ledger.ts";
import { currentMonth, monthLimit, type FixedMonth } from "./months.ts";

/** A replica that has sent nothing for this time is fenced. */
export const silenceMs = 10_000;
/** The scope is central if a replica would be granted less than this part of the credit that it asks for as slack. */
const leastPart = 1 / 8;

/** The credit that one replica holds in one scope: totals since the replica started to count this scope. */
export interface LeaseRow {
  granted: number;
  /** The part of `granted` that its posted charges took. */
  spent: number;
  /** The part of `granted` that was neither charged nor reserved when the replica last stated it. */
  slack: number;
  /** The least need that the replica has stated and that waits for credit of others. 0 if none waits. */
  waits: number;
  /** The newest epoch that the replica has answered. */
  epoch: number;
}

export interface ScopeState {
  readonly epoch: number;
  /** The limits of the last request. Undefined for a key, and for a workspace before its first request. */
  readonly limits: WorkspaceLimits | undefined;
  /** The months of a workspace that had ended at the last request. */
  readonly fixed: readonly FixedMonth[];
}

/** The posted charges of a scope: those in the windows of a key, or those of a workspace by the start of the month. */
export interface Used {
  readonly dayMilliCu: number;
  readonly monthMilliCu: number;
  readonly months: ReadonlyMap<number, number>;
}

/** Everything that a decision depends on, read at one instant. */
export interface ScopeView {
  readonly scope: ScopeState;
  readonly own: LeaseRow | undefined;
  readonly others: readonly LeaseRow[];
  readonly used: Used;
  readonly live: number;
  /** True if no other replica can ever need the credit, so that the replica is granted all of it. */
  readonly isOnlyHolder: boolean;
  readonly now: number;
}

export interface Decision {
  readonly scope: ScopeState;
  /** Undefined if the lease has ended. */
  readonly lease: LeaseRow | undefined;
  readonly granted: Omit<Granted, "reached">;
  /** The first need that was not granted. 0 if all were. */
  readonly unmetMilliCu: number;
  /** Credit that all replicas hold. */
  readonly openMilliCu: number;
}

export function outstanding({ granted, spent }: Pick<LeaseRow, "granted" | "spent">): number {
  return Math.max(0, granted - spent);
}

/** Grants what fits. At most what is left is granted, so charges plus leases never exceed a limit. */
export function grant(view: ScopeView, want: Want): Decision {
  const { own } = view;
  const { state, leftMilliCu } = capacityOf(view, want);
  const others = view.others.filter((each) => outstanding(each) > 0);
  const spent = want.isNew || own === undefined ? 0 : own.spent;
  let { grantedMilliCu: granted, slackMilliCu: slack } = want;
  let heldMilliCu = 0;
  for (const each of others) heldMilliCu += outstanding(each);
  let left = Math.max(0, leftMilliCu - heldMilliCu - outstanding({ granted, spent }));

  let unmetMilliCu = 0;
  let leastUnmetMilliCu = Infinity;
  for (const need of want.needsMilliCu) {
    if (need <= left) {
      granted += need;
      left -= need;
    } else {
      unmetMilliCu ||= need;
      leastUnmetMilliCu = Math.min(leastUnmetMilliCu, need);
    }
  }
  // A need that exceeds everything that the others could return does not wait for them.
  const waits = unmetMilliCu > 0 && leastUnmetMilliCu <= left + heldMilliCu ? leastUnmetMilliCu : 0;
  // A backup may have been restored, so the replica may have seen a later epoch.
  let epoch = Math.max(view.scope.epoch, want.epoch);
  const isUpToDate = want.epoch === epoch;
  if (waits > 0 && want.hasNewNeeds) epoch++;
  const extra = extraOf(view, want, left);
  const isCentral =
    unmetMilliCu > 0 ||
    view.others.some((each) => each.waits > 0) ||
    extra < want.extraMilliCu * leastPart;
  if (!isCentral) {
    granted += extra;
    slack += extra;
  }
  // A replica with needs has returned its slack with this message, so it has answered an epoch that it causes.
  const lease = { granted, spent, slack, waits, epoch: isUpToDate ? epoch : want.epoch };
  return {
    scope: { ...state, epoch },
    lease: granted === 0 && waits === 0 ? undefined : lease,
    granted: {
      scope: want.scope,
      grantedMilliCu: granted,
      epoch,
      answered: waits === 0 ? epoch : Math.min(epoch, ...others.map((each) => each.epoch)),
      mode: isCentral ? "central" : "leased",
    },
    unmetMilliCu,
    openMilliCu: heldMilliCu + outstanding(lease),
  };
}

/** A replica gets at most its share of half of what is left, so that a crash withholds little from the others. */
function extraOf({ live, isOnlyHolder }: ScopeView, want: Want, left: number): number {
  if (isOnlyHolder && want.extraMilliCu > 0) return left;
  return Math.min(want.extraMilliCu, Math.floor(left / (2 * live)));
}

function capacityOf(
  { scope, used, now }: ScopeView,
  { limits }: Want,
): { readonly state: ScopeState; readonly leftMilliCu: number } {
  if (limits.kind === "key") {
    const { dayMilliCu, monthMilliCu } = used;
    const leftMilliCu = Math.min(
      limits.dayMilliCu - dayMilliCu,
      limits.monthMilliCu - monthMilliCu,
    );
    return { state: scope, leftMilliCu };
  }
  const month = currentMonth(now, used.months, scope.fixed, scope.limits ?? limits);
  return {
    state: { ...scope, fixed: month.fixed, limits },
    leftMilliCu: monthLimit(limits, month.purchasedBeforeMilliCu) - month.sumMilliCu,
  };
}

/** If the first need exceeds both windows, the one that takes longer to clear is returned. */
export function limitReached(
  { unmetMilliCu, openMilliCu }: Pick<Decision, "unmetMilliCu" | "openMilliCu">,
  { used, now, scope }: Pick<ScopeView, "used" | "now" | "scope">,
  limits: Want["limits"],
  windowOf: (window: "day" | "month") => RollingWindow,
): LimitReached {
  if (limits.kind === "key") {
    const isMonth = used.monthMilliCu + openMilliCu + unmetMilliCu > limits.monthMilliCu;
    const limitMilliCu = isMonth ? limits.monthMilliCu : limits.dayMilliCu;
    const window = windowOf(isMonth ? "month" : "day");
    const { roomAt, freesAt } = windowState(window, limitMilliCu, openMilliCu, now);
    return {
      window: isMonth ? "30d" : "24h",
      usedMilliCu: (isMonth ? used.monthMilliCu : used.dayMilliCu) + openMilliCu,
      limitMilliCu,
      // A full window clears when it has room for the smallest charge, any other when its oldest charges leave.
      clearsAt: roomAt ?? freesAt,
    };
  }
  const month = currentMonth(now, used.months, scope.fixed, scope.limits ?? limits);
  return {
    window: undefined,
    usedMilliCu: month.sumMilliCu + openMilliCu,
    limitMilliCu: monthLimit(limits, month.purchasedBeforeMilliCu),
    clearsAt: month.end,
  };
}
