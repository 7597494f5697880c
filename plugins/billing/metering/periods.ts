/**
 * Billing periods (calendar months, UTC) and the draws of a workspace in one period: first the included amount of the
 * plan, then the purchased balance, then overage (gateway.md, "Credit Units"; decisions.md section 3). All amounts are
 * in milli-CU.
 */
import type { Plan, Workspace } from "sluice-gateway/services";

export interface Period {
  /** Milliseconds since 1970. */
  readonly start: number;
  /** Start of the next period. */
  readonly end: number;
}

/** Returns the calendar month (UTC) of `time`, which is in milliseconds since 1970. */
export function periodOf(time: number): Period {
  const date = new Date(time);
  const year = date.getUTCFullYear();
  const month = date.getUTCMonth();
  return { start: Date.UTC(year, month), end: Date.UTC(year, month + 1) };
}

/** A charge divided by its sources. The sum of the three is the charge. */
export interface Split {
  included: number;
  purchased: number;
  overage: number;
}

/** Credit that one workspace has drawn. */
export class Draws {
  /** Sum of the open reservations. */
  open = 0;
  /** Start of the period of the three amounts. */
  period = 0;
  included = 0;
  purchased = 0;
  overage = 0;
  /** Drawn from the purchased balance in all earlier periods. Purchased credit does not expire. */
  purchasedBefore = 0;

  /** Starts a new period if `period` is later than the current one. Time never goes back. */
  roll(period: number): void {
    if (period <= this.period) return;
    this.purchasedBefore += this.purchased;
    this.included = 0;
    this.purchased = 0;
    this.overage = 0;
    this.period = period;
  }

  /** Sum of the settled charges of this period and the open reservations. */
  get used(): number {
    return this.included + this.purchased + this.overage + this.open;
  }

  /** Returns the remaining purchased balance. Reservations have not drawn from it yet. */
  purchasedLeft(workspace: Workspace): number {
    const drawn = this.purchasedBefore + this.purchased;
    return Math.max(0, workspace.purchasedTotalCuMilli - drawn);
  }

  /** Returns the total credit of the period, as the 429 reports it. Infinity if overage has no limit. */
  limit(plan: Plan, workspace: Workspace): number {
    const purchased = Math.max(0, workspace.purchasedTotalCuMilli - this.purchasedBefore);
    return plan.includedCuMilli + purchased + overageLimit(plan, workspace);
  }

  /** Returns true if `costMilliCu` can be drawn after all open reservations. */
  fits(costMilliCu: number, plan: Plan, workspace: Workspace): boolean {
    // This compares the rest of each source, not the used amount with the limit. If a smaller plan was set within the
    // period, more may have been included than the plan includes now. That must not use up purchased credit.
    const included = Math.max(0, plan.includedCuMilli - this.included);
    const overage = Math.max(0, overageLimit(plan, workspace) - this.overage);
    // Sums above 2^53 would not be exact.
    if (this.used + costMilliCu > Number.MAX_SAFE_INTEGER) return false;
    return this.open + costMilliCu <= included + this.purchasedLeft(workspace) + overage;
  }

  /**
   * Draws a charge and writes its split to `split`. A charge may exceed its reservation. The part that no source covers
   * is overage if the plan has overage. Otherwise it overdraws the included amount, so that nothing is billed without
   * agreement.
   */
  draw(costMilliCu: number, plan: Plan, workspace: Workspace, split: Split): void {
    const includedLeft = Math.max(0, plan.includedCuMilli - this.included);
    split.included = Math.min(costMilliCu, includedLeft);
    const beyond = costMilliCu - split.included;
    split.purchased = beyond === 0 ? 0 : Math.min(beyond, this.purchasedLeft(workspace));
    split.overage = beyond - split.purchased;
    if (split.overage > 0 && plan.overageUsdPerCu === undefined) {
      split.included += split.overage;
      split.overage = 0;
    }
    this.included += split.included;
    this.purchased += split.purchased;
    this.overage += split.overage;
  }

  /** Reverses a draw that was made in `period`. */
  takeBack(period: number, split: Readonly<Split>): void {
    if (period !== this.period) {
      this.purchasedBefore -= split.purchased;
      return;
    }
    this.included -= split.included;
    this.purchased -= split.purchased;
    this.overage -= split.overage;
  }
}

function overageLimit(plan: Plan, workspace: Workspace): number {
  if (plan.overageUsdPerCu === undefined) return 0;
  return workspace.overageLimitCuMilli ?? Infinity;
}
