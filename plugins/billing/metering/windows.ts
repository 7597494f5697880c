/**
 * A rolling window: how much was charged within the last so many steps. A step counts until it has wholly left the
 * window, so a window of n steps holds up to n + 1 of them.
 */

export interface WindowShape {
  readonly stepMs: number;
  /** The window's length in steps. */
  readonly steps: number;
}

/** decisions.md section 3: 24 hours in steps of a minute, 30 days in steps of an hour. */
export const dayWindow: WindowShape = { stepMs: 60_000, steps: 24 * 60 };
export const monthWindow: WindowShape = { stepMs: 3_600_000, steps: 30 * 24 };

const none = new Float64Array(0);

/**
 * Sum over a rolling window, milli-CU. Adding and reading are O(1) amortised. Only steps with a charge take memory
 * (16 bytes each, in rings that double), so an idle key costs two empty objects.
 *
 * Time within a window never goes back: a clock that jumps back neither revives a step nor opens an older one. What is
 * charged meanwhile lands in the newest step seen, which can only make it count longer.
 */
export class RollingWindow {
  readonly #shape: WindowShape;
  /** Rings: entry i is at (first + i) mod capacity, oldest first, steps ascending. */
  #steps = none;
  #amounts = none;
  #first = 0;
  #count = 0;
  #newest = 0;
  #sum = 0;

  constructor(shape: WindowShape) {
    this.#shape = shape;
  }

  /** What counts at `now` (milliseconds since 1970). */
  sum(now: number): number {
    this.#evict(Math.floor(now / this.#shape.stepMs));
    return this.#sum;
  }

  /**
   * When no more than `amountMilli` counts if nothing is added from `now` on (both milliseconds since 1970): the
   * instant at which the step that it takes leaves the window. Undefined: no more counts now. Walks through the steps.
   */
  clearsAt(now: number, amountMilli: number): number | undefined {
    let left = this.sum(now);
    if (left <= amountMilli) return undefined;
    const { stepMs, steps } = this.#shape;
    for (let i = 0; i < this.#count; i++) {
      const at = this.#at(i);
      left -= this.#amounts[at] ?? 0;
      if (left <= amountMilli) return ((this.#steps[at] ?? 0) + steps + 1) * stepMs;
    }
    return undefined;
  }

  add(now: number, amountMilli: number): void {
    this.addToStep(Math.floor(now / this.#shape.stepMs), amountMilli);
  }

  /** Adds to a step by its number, `time / stepMs`. */
  addToStep(wanted: number, amountMilli: number): void {
    const step = Math.max(wanted, this.#newest);
    this.#evict(step);
    if (this.#count > 0 && step === this.#newest) {
      const last = this.#at(this.#count - 1);
      this.#amounts[last] = (this.#amounts[last] ?? 0) + amountMilli;
    } else this.#push(step, amountMilli);
    this.#sum += amountMilli;
  }

  /** Undoes an `add` of the same time and amount, unless its step has left the window. */
  takeBack(now: number, amountMilli: number): void {
    const step = Math.floor(now / this.#shape.stepMs);
    for (let i = this.#count - 1; i >= 0; i--) {
      const at = this.#at(i);
      if ((this.#steps[at] ?? 0) > step) continue;
      if (this.#steps[at] === step) {
        this.#amounts[at] = (this.#amounts[at] ?? 0) - amountMilli;
        this.#sum -= amountMilli;
      }
      return;
    }
  }

  /** Nothing counts any more, and no memory is held. */
  isEmpty(now: number): boolean {
    this.#evict(Math.floor(now / this.#shape.stepMs));
    return this.#count === 0;
  }

  #evict(step: number): void {
    // Before the newest step: the clock has jumped back, and time stands still here.
    const oldest = Math.max(step, this.#newest) - this.#shape.steps;
    while (this.#count > 0 && (this.#steps[this.#first] ?? 0) < oldest) {
      this.#sum -= this.#amounts[this.#first] ?? 0;
      this.#first = (this.#first + 1) % this.#steps.length;
      this.#count--;
    }
    if (this.#count === 0 && this.#steps !== none) {
      this.#resize(0);
      // Exact as long as the sum was a safe integer; a larger one, of an old journal, may leave a rest.
      this.#sum = 0;
    }
  }

  #push(step: number, amountMilli: number): void {
    if (this.#count === this.#steps.length) {
      this.#resize(Math.min(Math.max(4, this.#count * 2), this.#shape.steps + 1));
    }
    const at = this.#at(this.#count);
    this.#steps[at] = step;
    this.#amounts[at] = amountMilli;
    this.#count++;
    this.#newest = step;
  }

  #at(i: number): number {
    return (this.#first + i) % this.#steps.length;
  }

  #resize(capacity: number): void {
    const steps = capacity === 0 ? none : new Float64Array(capacity);
    const amounts = capacity === 0 ? none : new Float64Array(capacity);
    for (let i = 0; i < this.#count; i++) {
      steps[i] = this.#steps[this.#at(i)] ?? 0;
      amounts[i] = this.#amounts[this.#at(i)] ?? 0;
    }
    this.#steps = steps;
    this.#amounts = amounts;
    this.#first = 0;
  }
}
