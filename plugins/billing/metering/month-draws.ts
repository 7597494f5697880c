/** The division of each charge that is written to disk. The divisions of a month add up to the division of its sum. */
import type { WorkspaceLimits } from "../leases/ledger.ts";
import { drawn, totalOf, type Drawn, type FixedMonth } from "../leases/months.ts";

/** A charge divided by its sources. The sum of the three is the charge. A part is negative if a plan was changed. */
export type Split = Drawn;

const none = { includedMilliCu: 0, purchasedMilliCu: 0, overageMilliCu: 0 };

interface Period {
  readonly start: number;
  readonly purchasedBeforeMilliCu: number;
  /** Earlier months, oldest first. */
  readonly ended: readonly FixedMonth[];
}

/** The months of one workspace as they are on disk, and with the charges of the next commit. */
export class MonthDraws {
  #period: Period = { start: 0, purchasedBeforeMilliCu: 0, ended: [] };
  #drawn: Drawn = none;
  /** The same two without the charges of the next commit. */
  #savedPeriod = this.#period;
  #saved = this.#drawn;
  readonly #split = { ...none };

  /** Adds what is on disk of a month. Months ascend. */
  load(month: FixedMonth): void {
    this.moveTo(month.start);
    this.#drawn = month;
    this.save();
  }

  /** Ends the month before the one that starts at `start`. Does nothing if that has ended. */
  moveTo(start: number): void {
    const { start: endedStart, purchasedBeforeMilliCu, ended } = this.#period;
    if (start <= endedStart) return;
    const month = { ...this.#drawn, start: endedStart };
    this.#period = {
      start,
      purchasedBeforeMilliCu: purchasedBeforeMilliCu + month.purchasedMilliCu,
      ended: totalOf(month) === 0 ? ended : [...ended, month],
    };
    this.#drawn = none;
  }

  /**
   * Divides a charge. The division of the whole month follows from its sum and the present limits, so the charge gets
   * the difference to what is divided already. The result is valid until the next call.
   */
  add(costMilliCu: number, limits: WorkspaceLimits): Split {
    const before = this.#drawn;
    const { purchasedBeforeMilliCu } = this.#period;
    const after = drawn(totalOf(before) + costMilliCu, limits, purchasedBeforeMilliCu);
    this.#drawn = after;
    const split = this.#split;
    split.includedMilliCu = after.includedMilliCu - before.includedMilliCu;
    split.purchasedMilliCu = after.purchasedMilliCu - before.purchasedMilliCu;
    split.overageMilliCu = after.overageMilliCu - before.overageMilliCu;
    return split;
  }

  /** Called when the charges that were added are on disk. */
  save(): void {
    this.#savedPeriod = this.#period;
    this.#saved = this.#drawn;
  }

  /** Reverses the charges that were added since `save`, because they will never be on disk. */
  takeBack(): void {
    this.#period = this.#savedPeriod;
    this.#drawn = this.#saved;
  }

  get ended(): readonly FixedMonth[] {
    return this.#savedPeriod.ended;
  }

  /** Limits with which the sum of the month is divided as it is on disk. */
  get limits(): WorkspaceLimits {
    const { includedMilliCu, purchasedMilliCu, overageMilliCu } = this.#saved;
    const purchased = this.#savedPeriod.purchasedBeforeMilliCu + purchasedMilliCu;
    return { kind: "workspace", includedMilliCu, purchasedMilliCu: purchased, overageMilliCu };
  }
}
