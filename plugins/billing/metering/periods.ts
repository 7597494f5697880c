/**
 * Billing periods (calendar months, UTC) and what a workspace draws in one: the plan's included amount first, then the
 * purchased balance, then overage (gateway.md, "Credit Units"; decisions.md section 3). Milli-CU throughout.
 */
import type { Plan, Workspace } from "../../../src/services/accounts.ts";

export interface Period {
  /** Milliseconds since 1970. */
  readonly start: number;
  /** The first instant of the next one. */
  readonly end: number;
}

/** The calendar month, UTC, that holds `time` (milliseconds since 1970). */
export function periodOf(time: number): Period {
  const date = new Date(time);
  const year = date.getUTCFullYear();
  const month = date.getUTCMonth();
  return { start: Date.UTC(year, month), end: Date.UTC(year, month + 1) };
}

/** A charge by where it was drawn from; the three add up to it. */
export interface Split {
  included: number;
  purchased: number;
  overage: number;
}

/** What one workspace has drawn. */
export class Draws {
  /** Open reservations. */
  open = 0;
  /** Start of the period that the three amounts belong to. */
  period = 0;
  included = 0;
  purchased = 0;
  overage = 0;
  /** Drawn from the purchased balance in all earlier periods: that balance does not expire. */
  purchasedBefore = 0;

  /** Starts a new period where `period` is later than the one that runs. Time never goes back. */
  roll(period: number): void {
    if (period <= this.period) return;
    this.purchasedBefore += this.purchased;
    this.included = 0;
    this.purchased = 0;
    this.overage = 0;
    this.period = period;
  }

  /** Settled in this period and reserved. */
  get used(): number {
    return this.included + this.purchased + this.overage + this.open;
  }

  /** What is left of the purchased balance; reservations have not drawn from it yet. */
  purchasedLeft(workspace: Workspace): number {
    const drawn = this.purchasedBefore + this.purchased;
    return Math.max(0, workspace.purchasedTotalCuMilli - drawn);
  }

  /** What the period offers in all, as the 429 reports it; Infinity where overage has no limit. */
  limit(plan: Plan, workspace: Workspace): number {
    const purchased = Math.max(0, workspace.purchasedTotalCuMilli - this.purchasedBefore);
    return plan.includedCuMilli + purchased + overageLimit(plan, workspace);
  }

  /** Whether `costMilli` more can be drawn, all reservations being drawn first. */
  fits(costMilli: number, plan: Plan, workspace: Workspace): boolean {
    // By what each source has left, not used against limit: after a smaller plan was set within the period, more may
    // have been included than the plan includes now, and that must not eat up what was paid for.
    const included = Math.max(0, plan.includedCuMilli - this.included);
    const overage = Math.max(0, overageLimit(plan, workspace) - this.overage);
    // Beyond 2^53 sums would no longer be exact.
    if (this.used + costMilli > Number.MAX_SAFE_INTEGER) return false;
    return this.open + costMilli <= included + this.purchasedLeft(workspace) + overage;
  }

  /**
   * Draws a charge and writes its split to `split`. What no source has left (a charge may exceed its reservation) is
   * overage where the plan has any, else it overdraws the included amount, so that nothing is billed that was not
   * agreed.
   */
  draw(costMilli: number, plan: Plan, workspace: Workspace, split: Split): void {
    const includedLeft = Math.max(0, plan.includedCuMilli - this.included);
    split.included = Math.min(costMilli, includedLeft);
    const beyond = costMilli - split.included;
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

  /** Undoes a draw made in `period`. */
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
