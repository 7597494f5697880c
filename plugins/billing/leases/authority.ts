/**
 * Decides how much credit of a scope a replica may use. The function is pure: MemoryLedger calls it with rows in memory,
 * and PostgresLedger with rows of the database.
 */
import { dayWindow, monthWindow, type WindowShape } from "../metering/windows.ts";
import { periodOf } from "../metering/periods.ts";
import { add, difference, sum, takeInOrder } from "./amounts.ts";
import {
  nothing,
  outstanding,
  outstandingBySource,
  type LeaseRow,
  type ScopeState,
  type Used,
} from "./ledger-rows.ts";
import {
  unlimitedMilliCu,
  type Amounts,
  type Granted,
  type LimitReached,
  type Limits,
  type Want,
} from "./ledger.ts";

/** A replica that has sent nothing for this time is fenced. */
export const silenceMs = 10_000;
/**
 * For this time after a need that did not fit, no replica is granted slack. Otherwise, busy replicas could take the
 * credit that others return for that need.
 */
const unmetMs = 1_000;

/** Everything that a decision depends on, read at one instant. */
export interface ScopeView {
  readonly scope: ScopeState;
  /** The lease of the replica that asks. */
  readonly own: LeaseRow | undefined;
  /** The leases of all other replicas. */
  readonly others: readonly LeaseRow[];
  readonly used: Used;
  /** Number of live replicas. */
  readonly live: number;
  readonly now: number;
}

export interface Decision {
  readonly scope: ScopeState;
  /** The new lease of the replica. Undefined if it has ended. */
  readonly lease: LeaseRow | undefined;
  readonly granted: Omit<Granted, "reached">;
  /** The first need that was not granted. 0 if all were. */
  readonly unmetMilliCu: number;
  /** Credit that all replicas hold. */
  readonly openMilliCu: number;
}

/** Grants what fits. At most what is left is granted, so charges plus leases never exceed a limit. */
export function grant(view: ScopeView, want: Want): Decision {
  const { own, used, now } = view;
  const others = view.others.filter((each) => outstanding(each) > 0);
  const zero = want.grantedMilliCu.map(() => 0);
  const spent = want.isNew || own === undefined ? zero : own.spent;
  let { grantedMilliCu: granted, slackMilliCu: slack, recall: answers } = want;
  // A backup may have been restored, so the replica may have seen a later recall.
  let recall = Math.max(view.scope.recall, want.recall);
  let { isTight, unmetAt } = view.scope;
  let left = notPosted(used, want.limits, now);
  for (const each of [{ granted, spent }, ...others]) {
    left = difference(left, outstandingBySource(each));
  }
  left = left.map((amount) => Math.max(0, amount));

  // Credit of a later source is granted only when no replica holds unused credit of an earlier one.
  let otherSlack: Amounts = zero;
  for (const each of others) otherSlack = add(otherSlack, each.slack);
  const firstSlack = want.anySource ? -1 : otherSlack.findIndex((amount) => amount > 0);
  const reach = firstSlack === -1 ? left.length : firstSlack + 1;

  let unmetMilliCu = 0;
  let leastUnmetMilliCu = Infinity;
  for (const need of want.needsMilliCu) {
    const taken = takeInOrder(left.slice(0, reach), need);
    if (sum(taken) === need) {
      granted = add(granted, taken);
      left = difference(left, taken);
    } else {
      unmetMilliCu ||= need;
      leastUnmetMilliCu = Math.min(leastUnmetMilliCu, need);
    }
  }
  const missingMilliCu = unmetMilliCu === 0 ? 0 : leastUnmetMilliCu - sum(left);
  const heldMilliCu = sum(others.map(outstanding));
  // The need would not fit even if the others returned everything, so they are not asked.
  const isHopeless = missingMilliCu > heldMilliCu;
  if (unmetMilliCu > 0 && !isHopeless) {
    unmetAt = now;
    // A holder of slack that has answered the newest recall was granted the slack later, so it is recalled once more.
    const hasNewSlack = others.some((each) => sum(each.slack) > 0 && each.recall === recall);
    if (want.hasNewNeeds || hasNewSlack) {
      // The caller has just stated what it keeps, so it has answered its own recall.
      if (sum(slack) === 0 && answers === recall) answers++;
      recall++;
      isTight = true;
    }
  }
  if (unmetMilliCu === 0 && want.extraMilliCu > 0) {
    // Slack comes from the first source that has credit left. No replica gets more than its share of half of what is
    // left, so that a replica that crashes withholds little from the others.
    const source = left.slice(0, reach).findIndex((amount) => amount > 0);
    const share = Math.floor((left[source] ?? 0) / (2 * view.live));
    if (share >= want.extraMilliCu && now - unmetAt >= unmetMs) isTight = false;
    if (!isTight && share > 0) {
      const extra = zero.map((_, at) => (at === source ? Math.min(share, want.extraMilliCu) : 0));
      granted = add(granted, extra);
      slack = add(slack, extra);
    }
  }
  const lease = { granted, spent, slack, recall: answers };
  const answered = isHopeless
    ? recall
    : missingMilliCu <= sum(otherSlack)
      ? 0
      : Math.min(recall, ...others.map((each) => each.recall));
  return {
    scope: { recall, isTight, unmetAt },
    lease: want.isNew && sum(granted) === 0 ? undefined : lease,
    granted: { scope: want.scope, grantedMilliCu: granted, recall, answered, isTight },
    unmetMilliCu,
    openMilliCu: heldMilliCu + outstanding(lease),
  };
}

/** Returns the draws of this month, by source. Purchased credit does not expire, so its draws always count. */
export function drawnBySource(draws: Used["draws"], now: number): Amounts {
  const [included = 0, , overage = 0] = draws.get(periodOf(now).start) ?? nothing;
  let purchased = 0;
  for (const amounts of draws.values()) purchased += amounts[1] ?? 0;
  return [included, purchased, overage];
}

/** Returns the limits minus the posted charges, by source. */
function notPosted(
  { dayMilliCu, monthMilliCu, draws }: Used,
  limits: Limits,
  now: number,
): Amounts {
  if (limits.kind === "key") {
    return [Math.min(limits.dayMilliCu - dayMilliCu, limits.monthMilliCu - monthMilliCu)];
  }
  const { includedMilliCu, purchasedMilliCu, overageMilliCu } = limits;
  return difference([includedMilliCu, purchasedMilliCu, overageMilliCu], drawnBySource(draws, now));
}

/**
 * Returns the limit that the first need exceeds. If it exceeds both windows, the one that takes longer to clear is
 * returned. `stepsOf`: returns the charges in a window of the key by step.
 */
export function limitReached(
  { unmetMilliCu, openMilliCu }: Pick<Decision, "unmetMilliCu" | "openMilliCu">,
  { used, now }: Pick<ScopeView, "used" | "now">,
  limits: Limits,
  stepsOf: (window: "day" | "month") => ReadonlyMap<number, number>,
): LimitReached {
  if (limits.kind === "key") {
    const isMonth = used.monthMilliCu + openMilliCu + unmetMilliCu > limits.monthMilliCu;
    const limitMilliCu = isMonth ? limits.monthMilliCu : limits.dayMilliCu;
    const [steps, shape] = isMonth
      ? ([stepsOf("month"), monthWindow] as const)
      : ([stepsOf("day"), dayWindow] as const);
    return {
      window: isMonth ? "30d" : "24h",
      usedMilliCu: (isMonth ? used.monthMilliCu : used.dayMilliCu) + openMilliCu,
      limitMilliCu,
      clearsAt: windowClearsAt(steps, shape, limitMilliCu, openMilliCu),
    };
  }
  const { start, end } = periodOf(now);
  const thisMonth = used.draws.get(start) ?? nothing;
  const purchasedBefore = (drawnBySource(used.draws, now)[1] ?? 0) - (thisMonth[1] ?? 0);
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
