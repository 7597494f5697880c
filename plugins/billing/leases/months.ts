/**
 * Divides a month (UTC) of a workspace into included, purchased and overage. A charge has one amount; the division
 * follows from the sum of the month, so a change of the plan counts for the whole month (decisions.md section 3). All
 * amounts are in milli-CU.
 */
import { unlimitedMilliCu, type WorkspaceLimits } from "./ledger.ts";

export interface Drawn {
  readonly includedMilliCu: number;
  readonly purchasedMilliCu: number;
  readonly overageMilliCu: number;
}

/** A month that has ended. Its division never changes again. */
export interface FixedMonth extends Drawn {
  /** Start of the month in milliseconds since 1970. */
  readonly start: number;
}

export interface CurrentMonth {
  readonly start: number;
  readonly end: number;
  readonly sumMilliCu: number;
  /** Drawn from the purchased credit in all earlier months. Purchased credit does not expire. */
  readonly purchasedBeforeMilliCu: number;
  readonly fixed: readonly FixedMonth[];
  readonly limits: WorkspaceLimits;
}

/**
 * Divides the sum of a month: first the included amount, then purchased credit. The rest is overage if the limits allow
 * any. Otherwise it overdraws the included amount, so that nothing is billed without agreement.
 */
export function drawn(
  monthSum: number,
  { includedMilliCu, purchasedMilliCu, overageMilliCu }: Omit<WorkspaceLimits, "kind">,
  purchasedBefore: number,
): Drawn {
  const included = Math.min(monthSum, includedMilliCu);
  const left = Math.max(0, purchasedMilliCu - purchasedBefore);
  const purchased = Math.min(monthSum - included, left);
  const rest = monthSum - included - purchased;
  const hasOverage = overageMilliCu > 0;
  return {
    includedMilliCu: hasOverage ? included : included + rest,
    purchasedMilliCu: purchased,
    overageMilliCu: hasOverage ? rest : 0,
  };
}

export function monthLimit(limits: WorkspaceLimits, purchasedBefore: number): number {
  const purchased = Math.max(0, limits.purchasedMilliCu - purchasedBefore);
  return Math.min(limits.includedMilliCu + purchased + limits.overageMilliCu, unlimitedMilliCu);
}

/**
 * Returns the month of `now`. Earlier months that are not in `fixed` are fixed by `limits`, which are those of the last
 * request before they are fixed. `sums`: posted charges by the start of their month. A charge that was posted after its
 * month was fixed counts in the next month that is not fixed.
 */
export function currentMonth(
  now: number,
  sums: ReadonlyMap<number, number>,
  fixed: readonly FixedMonth[],
  limits: WorkspaceLimits,
): CurrentMonth {
  const { start, end } = periodOf(now);
  const known = new Map(fixed.map((month) => [month.start, month]));
  let purchasedBeforeMilliCu = 0;
  for (const month of fixed) purchasedBeforeMilliCu += month.purchasedMilliCu;
  // The sum of the current month, and of the charges that count in the next month.
  let sumMilliCu = 0;
  for (const [month, sum] of [...sums].toSorted(([a], [b]) => a - b)) {
    const before = known.get(month);
    if (before !== undefined) sumMilliCu += sum - totalOf(before);
    else if (month >= start) sumMilliCu += sum;
    else {
      const ended = { start: month, ...drawn(sumMilliCu + sum, limits, purchasedBeforeMilliCu) };
      known.set(month, ended);
      sumMilliCu = 0;
      purchasedBeforeMilliCu += ended.purchasedMilliCu;
    }
  }
  return { start, end, sumMilliCu, purchasedBeforeMilliCu, fixed: [...known.values()], limits };
}

export function drawnIn({ sumMilliCu, limits, purchasedBeforeMilliCu }: CurrentMonth): Drawn {
  return drawn(sumMilliCu, limits, purchasedBeforeMilliCu);
}

/** `purchasedMilliCu`: sum of all purchases. Credit that was bought since the last request is not drawn yet. */
export function purchasedLeftIn(month: CurrentMonth, purchasedMilliCu: number): number {
  const drawnMilliCu = month.purchasedBeforeMilliCu + drawnIn(month).purchasedMilliCu;
  return Math.max(0, purchasedMilliCu - drawnMilliCu);
}

export function totalOf({ includedMilliCu, purchasedMilliCu, overageMilliCu }: Drawn): number {
  return includedMilliCu + purchasedMilliCu + overageMilliCu;
}

/** `months`: by workspace and by the start of the month. */
export function addDrawn(
  months: Map<string, Map<number, Drawn>>,
  workspaceId: string,
  start: number,
  { includedMilliCu, purchasedMilliCu, overageMilliCu }: Drawn,
): void {
  const ofWorkspace = months.get(workspaceId) ?? new Map<number, Drawn>();
  months.set(workspaceId, ofWorkspace);
  const sum = ofWorkspace.get(start);
  ofWorkspace.set(start, {
    includedMilliCu: includedMilliCu + (sum?.includedMilliCu ?? 0),
    purchasedMilliCu: purchasedMilliCu + (sum?.purchasedMilliCu ?? 0),
    overageMilliCu: overageMilliCu + (sum?.overageMilliCu ?? 0),
  });
}

export interface Period {
  /** Milliseconds since 1970. */
  readonly start: number;
  readonly end: number;
}

/** Returns the calendar month (UTC) of `time`, which is in milliseconds since 1970. */
export function periodOf(time: number): Period {
  const date = new Date(time);
  const year = date.getUTCFullYear();
  const month = date.getUTCMonth();
  return { start: Date.UTC(year, month), end: Date.UTC(year, month + 1) };
}
