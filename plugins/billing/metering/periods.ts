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
  includedMilliCu: number;
  purchasedMilliCu: number;
  overageMilliCu: number;
}

/** Credit that one workspace has drawn. */
export class Draws {
  /** Sum of the open reservations. */
  openMilliCu = 0;
  /** Start of the period of the three amounts. */
  period = 0;
  includedMilliCu = 0;
  purchasedMilliCu = 0;
  overageMilliCu = 0;
  /** Drawn from the purchased balance in all earlier periods. Purchased credit does not expire. */
  purchasedBeforeMilliCu = 0;

  /** Starts a new period if `period` is later than the current one. Time never goes back. */
  roll(period: number): void {
    if (period <= this.period) return;
    this.purchasedBeforeMilliCu += this.purchasedMilliCu;
    this.includedMilliCu = 0;
    this.purchasedMilliCu = 0;
    this.overageMilliCu = 0;
    this.period = period;
  }

  /** Removes all draws, so that those of any period can be added. The open reservations stay. */
  clear(): void {
    this.period = 0;
    this.includedMilliCu = 0;
    this.purchasedMilliCu = 0;
    this.overageMilliCu = 0;
    this.purchasedBeforeMilliCu = 0;
  }

  /** Sum of the settled charges of this period and the open reservations. */
  get usedMilliCu(): number {
    return this.includedMilliCu + this.purchasedMilliCu + this.overageMilliCu + this.openMilliCu;
  }

  /** Returns the remaining purchased balance. Reservations have not drawn from it yet. */
  purchasedLeft(workspace: Workspace): number {
    const drawnMilliCu = this.purchasedBeforeMilliCu + this.purchasedMilliCu;
    return Math.max(0, workspace.purchasedTotalMilliCu - drawnMilliCu);
  }

  /** Returns the total credit of the period, as the 429 reports it. Infinity if overage has no limit. */
  limit(plan: Plan, workspace: Workspace): number {
    const purchasedMilliCu = Math.max(
      0,
      workspace.purchasedTotalMilliCu - this.purchasedBeforeMilliCu,
    );
    return plan.includedMilliCu + purchasedMilliCu + overageLimit(plan, workspace);
  }

  /** Returns true if `costMilliCu` can be drawn after all open reservations. */
  fits(costMilliCu: number, plan: Plan, workspace: Workspace): boolean {
    // This compares the remainder of each source instead of the used amount with the limit. If a smaller plan was set
    // within the period, more included credit may have been drawn than the plan now includes. The difference must not
    // use up purchased credit.
    const includedMilliCu = Math.max(0, plan.includedMilliCu - this.includedMilliCu);
    const overageMilliCu = Math.max(0, overageLimit(plan, workspace) - this.overageMilliCu);
    // Sums above 2^53 would not be exact.
    if (this.usedMilliCu + costMilliCu > Number.MAX_SAFE_INTEGER) return false;
    return (
      this.openMilliCu + costMilliCu <=
      includedMilliCu + this.purchasedLeft(workspace) + overageMilliCu
    );
  }

  /**
   * Draws a charge and writes its split to `split`. A charge may exceed its reservation. The part that no source covers
   * is overage if the plan has overage. Otherwise it overdraws the included amount, so that nothing is billed without
   * agreement.
   */
  draw(costMilliCu: number, plan: Plan, workspace: Workspace, split: Split): void {
    const includedLeftMilliCu = Math.max(0, plan.includedMilliCu - this.includedMilliCu);
    split.includedMilliCu = Math.min(costMilliCu, includedLeftMilliCu);
    const beyondMilliCu = costMilliCu - split.includedMilliCu;
    split.purchasedMilliCu =
      beyondMilliCu === 0 ? 0 : Math.min(beyondMilliCu, this.purchasedLeft(workspace));
    split.overageMilliCu = beyondMilliCu - split.purchasedMilliCu;
    if (split.overageMilliCu > 0 && plan.overageUsdPerCu === undefined) {
      split.includedMilliCu += split.overageMilliCu;
      split.overageMilliCu = 0;
    }
    this.includedMilliCu += split.includedMilliCu;
    this.purchasedMilliCu += split.purchasedMilliCu;
    this.overageMilliCu += split.overageMilliCu;
  }

  /** Reverses a draw that was made in `period`. */
  takeBack(period: number, split: Readonly<Split>): void {
    if (period !== this.period) {
      this.purchasedBeforeMilliCu -= split.purchasedMilliCu;
      return;
    }
    this.includedMilliCu -= split.includedMilliCu;
    this.purchasedMilliCu -= split.purchasedMilliCu;
    this.overageMilliCu -= split.overageMilliCu;
  }
}

function overageLimit(plan: Plan, workspace: Workspace): number {
  if (plan.overageUsdPerCu === undefined) return 0;
  return workspace.overageLimitCuMilli ?? Infinity;
}
