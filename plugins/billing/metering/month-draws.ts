/** The division of each charge that is written to disk. The divisions of a month add up to the division of its sum. */
import { unlimitedMilliCu, type WorkspaceLimits } from "../leases/ledger.ts";
import { drawn, totalOf, type Drawn, type FixedMonth } from "../leases/months.ts";

/** A charge divided by its sources. The sum of the three is the charge. A part is negative if a plan was changed. */
export type Split = Drawn;

/** Before the first request of a workspace, its limits are unknown, and everything counts as included. */
export const unknownLimits: WorkspaceLimits = {
  kind: "workspace",
  includedMilliCu: unlimitedMilliCu,
  purchasedMilliCu: 0,
  overageMilliCu: 0,
};

const none = { includedMilliCu: 0, purchasedMilliCu: 0, overageMilliCu: 0 };

/** The months of one workspace as they are on disk. */
export class MonthDraws {
  /** The month of the newest charge. */
  #month: FixedMonth = { start: 0, ...none };
  #purchasedBeforeMilliCu = 0;
  /** Earlier months, oldest first. */
  readonly ended: FixedMonth[] = [];

  /** Adds what is on disk of a month. Months ascend. */
  load(month: FixedMonth): void {
    this.moveTo(month.start);
    this.#month = month;
  }

  /** Ends the month before the one that starts at `start`. Does nothing if that has ended. */
  moveTo(start: number): void {
    const ended = this.#month;
    if (start <= ended.start) return;
    if (totalOf(ended) !== 0) this.ended.push(ended);
    this.#purchasedBeforeMilliCu += ended.purchasedMilliCu;
    this.#month = { start, ...none };
  }

  /**
   * Divides a charge. The division of the whole month follows from its sum and the present limits, so the charge gets
   * the difference to what is divided already.
   */
  add(costMilliCu: number, limits: WorkspaceLimits): Split {
    const before = this.#month;
    const after = drawn(totalOf(before) + costMilliCu, limits, this.#purchasedBeforeMilliCu);
    this.#month = { start: before.start, ...after };
    return {
      includedMilliCu: after.includedMilliCu - before.includedMilliCu,
      purchasedMilliCu: after.purchasedMilliCu - before.purchasedMilliCu,
      overageMilliCu: after.overageMilliCu - before.overageMilliCu,
    };
  }

  /** Reverses `add`, because the charge will never be on disk. */
  takeBack(split: Split): void {
    const { start, includedMilliCu, purchasedMilliCu, overageMilliCu } = this.#month;
    this.#month = {
      start,
      includedMilliCu: includedMilliCu - split.includedMilliCu,
      purchasedMilliCu: purchasedMilliCu - split.purchasedMilliCu,
      overageMilliCu: overageMilliCu - split.overageMilliCu,
    };
  }

  /** Limits with which the sum of the month is divided as it is on disk. */
  get limits(): WorkspaceLimits {
    const { includedMilliCu, purchasedMilliCu, overageMilliCu } = this.#month;
    const before = this.#purchasedBeforeMilliCu;
    const purchased = before + purchasedMilliCu;
    return { kind: "workspace", includedMilliCu, purchasedMilliCu: purchased, overageMilliCu };
  }
}
