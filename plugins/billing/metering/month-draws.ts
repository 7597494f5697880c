/** The division of each charge that is written to disk. The divisions of a month add up to the division of its sum. */
import type { WorkspaceLimits } from "../leases/ledger.ts";
import { drawn, totalOf, type Drawn, type FixedMonth } from "../leases/months.ts";

/** A charge divided by its sources. The sum of the three is the charge. A part is negative if a plan was changed. */
export type Split = Drawn;

const none = { includedMilliCu: 0, purchasedMilliCu: 0, overageMilliCu: 0 };

/** The months of one workspace as they are on disk, and with the charges of the next commit. */
export class MonthDraws {
  /** The division of the month of the newest charge, with the charges of the next commit. */
  #drawn: Drawn = none;
  /** The same without the charges of the next commit. */
  #saved: FixedMonth = { start: 0, ...none };
  #purchasedBeforeMilliCu = 0;
  /** Earlier months, oldest first. */
  readonly ended: FixedMonth[] = [];

  /** Adds what is on disk of a month. Months ascend. */
  load(month: FixedMonth): void {
    this.moveTo(month.start);
    this.#drawn = month;
    this.#saved = month;
  }

  /**
   * Ends the month before the one that starts at `start`. Does nothing if that has ended. Charges that are not on disk yet
   * count in the new month.
   */
  moveTo(start: number): void {
    const ended = this.#saved;
    if (start <= ended.start) return;
    if (totalOf(ended) !== 0) this.ended.push(ended);
    this.#purchasedBeforeMilliCu += ended.purchasedMilliCu;
    this.#drawn = none;
    this.#saved = { start, ...none };
  }

  /**
   * Divides a charge. The division of the whole month follows from its sum and the present limits, so the charge gets
   * the difference to what is divided already.
   */
  add(costMilliCu: number, limits: WorkspaceLimits): Split {
    const before = this.#drawn;
    const after = drawn(totalOf(before) + costMilliCu, limits, this.#purchasedBeforeMilliCu);
    this.#drawn = after;
    return {
      includedMilliCu: after.includedMilliCu - before.includedMilliCu,
      purchasedMilliCu: after.purchasedMilliCu - before.purchasedMilliCu,
      overageMilliCu: after.overageMilliCu - before.overageMilliCu,
    };
  }

  /** Called when the charges that were added are on disk. */
  save(): void {
    this.#saved = { start: this.#saved.start, ...this.#drawn };
  }

  /** Reverses the charges that were added since `save`, because they will never be on disk. */
  takeBack(): void {
    this.#drawn = this.#saved;
  }

  /** Limits with which the sum of the month is divided as it is on disk. */
  get limits(): WorkspaceLimits {
    const { includedMilliCu, purchasedMilliCu, overageMilliCu } = this.#saved;
    const purchased = this.#purchasedBeforeMilliCu + purchasedMilliCu;
    return { kind: "workspace", includedMilliCu, purchasedMilliCu: purchased, overageMilliCu };
  }
}
