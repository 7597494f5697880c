/** The used and the remaining credit of one scope of the ledger in memory. `schema-usage.ts` does the same in PostgreSQL. */
import { periodOf } from "../metering/periods.ts";
import { dayWindow, monthWindow, type WindowShape } from "../metering/windows.ts";
import { difference, sum } from "./amounts.ts";
import {
  nothing,
  outstanding,
  outstandingBySource,
  type LeaseRow,
  type ScopeRow,
} from "./ledger-rows.ts";
import { unlimitedMilliCu, type Amounts, type LimitReached, type Limits } from "./ledger.ts";

/** Returns the posted charges in both windows of a key. Steps that have left their window are deleted. */
export function postedInWindows(
  { daySteps, monthSteps }: ScopeRow,
  now: number,
): { readonly day: number; readonly month: number } {
  return {
    day: windowSum(daySteps, dayWindow, now),
    month: windowSum(monthSteps, monthWindow, now),
  };
}

/** A step counts until it has left the window completely. */
function windowSum(
  steps: Map<number, number>,
  { stepMs, steps: length }: WindowShape,
  now: number,
): number {
  const oldest = Math.floor(now / stepMs) - length;
  let total = 0;
  for (const [step, milliCu] of steps) {
    if (step < oldest) steps.delete(step);
    else total += milliCu;
  }
  return total;
}

/** Returns the draws of this month, by source. Purchased credit does not expire, so its draws always count. */
export function drawnBySource({ draws }: ScopeRow, now: number): Amounts {
  const { start } = periodOf(now);
  const [included = 0, , overage = 0] = draws.get(start) ?? nothing;
  let purchased = 0;
  for (const amounts of draws.values()) purchased += amounts[1] ?? 0;
  return [included, purchased, overage];
}

/** Returns the limits minus the posted charges, by source. */
function notPosted(scope: ScopeRow, limits: Limits, now: number): Amounts {
  if (limits.kind === "key") {
    const { day, month } = postedInWindows(scope, now);
    return [Math.min(limits.dayMilliCu - day, limits.monthMilliCu - month)];
  }
  const { includedMilliCu, purchasedMilliCu, overageMilliCu } = limits;
  return difference([includedMilliCu, purchasedMilliCu, overageMilliCu], drawnBySource(scope, now));
}

/** Returns the credit that is neither posted nor held by a replica, by source. */
export function leftIn(scope: ScopeRow, limits: Limits, now: number): Amounts {
  let left = notPosted(scope, limits, now);
  for (const lease of scope.leases.values()) left = difference(left, outstandingBySource(lease));
  return left.map((amount) => Math.max(0, amount));
}

/** Returns the credit that several replicas hold, and how much of it they do not use. */
export function heldBy(leases: readonly LeaseRow[]): {
  readonly heldMilliCu: number;
  readonly slackMilliCu: number;
} {
  let heldMilliCu = 0;
  let slackMilliCu = 0;
  for (const lease of leases) {
    heldMilliCu += outstanding(lease);
    slackMilliCu += sum(lease.slack);
  }
  return { heldMilliCu, slackMilliCu };
}

/**
 * Returns the limit that a need exceeds. If it exceeds both windows, the one that takes longer to clear is returned.
 */
export function limitReached(
  scope: ScopeRow,
  limits: Limits,
  need: number,
  now: number,
): LimitReached {
  const { heldMilliCu: openMilliCu } = heldBy([...scope.leases.values()]);
  if (limits.kind === "key") {
    const { day, month } = postedInWindows(scope, now);
    const { dayMilliCu, monthMilliCu } = limits;
    const isMonth = month + openMilliCu + need > monthMilliCu;
    const limitMilliCu = isMonth ? monthMilliCu : dayMilliCu;
    const [steps, shape] = isMonth ? [scope.monthSteps, monthWindow] : [scope.daySteps, dayWindow];
    return {
      window: isMonth ? "30d" : "24h",
      usedMilliCu: (isMonth ? month : day) + openMilliCu,
      limitMilliCu,
      clearsAt: windowClearsAt(steps, shape, limitMilliCu, openMilliCu),
    };
  }
  const { start, end } = periodOf(now);
  const thisMonth = scope.draws.get(start) ?? nothing;
  const purchasedBefore = (drawnBySource(scope, now)[1] ?? 0) - (thisMonth[1] ?? 0);
  const purchased = Math.max(0, limits.purchasedMilliCu - purchasedBefore);
  const allSources = limits.includedMilliCu + purchased + limits.overageMilliCu;
  const limitMilliCu = Math.min(allSources, unlimitedMilliCu);
  const usedMilliCu = sum(thisMonth) + openMilliCu;
  return { window: undefined, usedMilliCu, limitMilliCu, clearsAt: end };
}

/**
 * Returns when a window has room for the smallest charge, in milliseconds since 1970. If the window has room now,
 * returns the time at which its oldest charges leave it. Undefined if it has no charges. `openMilliCu`: credit that is
 * granted and not posted.
 */
function windowClearsAt(
  steps: ReadonlyMap<number, number>,
  { stepMs, steps: length }: WindowShape,
  limitMilliCu: number,
  openMilliCu: number,
): number | undefined {
  let left = sum([...steps.values()]);
  const room = limitMilliCu === 0 ? left : Math.max(0, limitMilliCu - 1 - openMilliCu);
  const wanted = Math.min(room, left - 1);
  for (const [step, milliCu] of [...steps].toSorted(([a], [b]) => a - b)) {
    left -= milliCu;
    if (left <= wanted) return (step + length + 1) * stepMs;
  }
  return undefined;
}
