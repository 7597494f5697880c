/**
 * Rolling windows: the amount charged within the last n steps. A step counts until it has left the window completely,
 * so a window of n steps holds up to n + 1 of them.
 */
import type { ApiKey, KeyWindows, WindowState } from "sluice-gateway/services";

export interface WindowShape {
  readonly stepMs: number;
  readonly steps: number;
}

/** decisions.md section 3: 24 hours in steps of a minute, 30 days in steps of an hour. */
export const dayWindow: WindowShape = { stepMs: 60_000, steps: 24 * 60 };
export const monthWindow: WindowShape = { stepMs: 3_600_000, steps: 30 * 24 };

const none = new Float64Array(0);

/**
 * The sum of a rolling window, in milli-CU. Adding and reading are O(1) amortised. Only steps with a charge use memory
 * (16 bytes each, in rings that double their size), so an idle key costs two empty objects.
 *
 * Time in a window never goes back: if the clock jumps back, no earlier step is opened or revived. Amounts that are
 * charged until the clock catches up are added to the newest step, so they count for the full length of the window or
 * longer.
 */
export class RollingWindow {
  readonly #shape: WindowShape;
  /** Ring buffers: entry i has the index (first + i) mod capacity. The oldest entry is first, and steps ascend. */
  #steps = none;
  #amounts = none;
  #first = 0;
  #count = 0;
  #newest = 0;
  #sum = 0;

  constructor(shape: WindowShape) {
    this.#shape = shape;
  }

  /** `now`: milliseconds since 1970. */
  sum(now: number): number {
    this.#evict(Math.floor(now / this.#shape.stepMs));
    return this.#sum;
  }

  /**
   * Returns the time at which the sum falls to `amountMilliCu` or below if nothing is added from `now` on (both times
   * in milliseconds since 1970): the end of the step that must leave the window. Undefined if the sum is that low
   * already. Reads all steps.
   */
  clearsAt(now: number, amountMilliCu: number): number | undefined {
    let left = this.sum(now);
    if (left <= amountMilliCu) return undefined;
    const { stepMs, steps } = this.#shape;
    for (let i = 0; i < this.#count; i++) {
      const at = this.#at(i);
      left -= this.#amounts[at] ?? 0;
      if (left <= amountMilliCu) return ((this.#steps[at] ?? 0) + steps + 1) * stepMs;
    }
    return undefined;
  }

  add(now: number, amountMilliCu: number): void {
    this.addToStep(Math.floor(now / this.#shape.stepMs), amountMilliCu);
  }

  /** Adds to the step with the given number, which is `time / stepMs`. */
  addToStep(wanted: number, amountMilliCu: number): void {
    const step = Math.max(wanted, this.#newest);
    this.#evict(step);
    if (this.#count > 0 && step === this.#newest) {
      const last = this.#at(this.#count - 1);
      this.#amounts[last] = (this.#amounts[last] ?? 0) + amountMilliCu;
    } else this.#push(step, amountMilliCu);
    this.#sum += amountMilliCu;
  }

  /** Removes all amounts, so that steps of any time can be added. */
  clear(): void {
    this.#count = 0;
    this.#resize(0);
    this.#newest = 0;
    this.#sum = 0;
  }

  /** Returns true if the sum is 0 and no memory is held. */
  isEmpty(now: number): boolean {
    this.#evict(Math.floor(now / this.#shape.stepMs));
    return this.#count === 0;
  }

  #evict(step: number): void {
    // A step before the newest one means that the clock has jumped back. The window then keeps its time.
    const oldest = Math.max(step, this.#newest) - this.#shape.steps;
    while (this.#count > 0 && (this.#steps[this.#first] ?? 0) < oldest) {
      this.#sum -= this.#amounts[this.#first] ?? 0;
      this.#first = (this.#first + 1) % this.#steps.length;
      this.#count--;
    }
    if (this.#count === 0 && this.#steps !== none) {
      this.#resize(0);
      // The remainder is 0 if the sum was a safe integer. A larger sum from an old journal may leave a remainder.
      this.#sum = 0;
    }
  }

  #push(step: number, amountMilliCu: number): void {
    if (this.#count === this.#steps.length) {
      this.#resize(Math.min(Math.max(4, this.#count * 2), this.#shape.steps + 1));
    }
    const at = this.#at(this.#count);
    this.#steps[at] = step;
    this.#amounts[at] = amountMilliCu;
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

/** `amounts`: their steps ascend. */
export function windowOf(
  kind: "day" | "month",
  amounts: Iterable<readonly [step: number, milliCu: number]>,
): RollingWindow {
  const window = new RollingWindow(kind === "day" ? dayWindow : monthWindow);
  for (const [step, milliCu] of amounts) window.addToStep(step, milliCu);
  return window;
}

/** `windows`: undefined without charges. `openMilliCu`: reserved credit of the key. */
export function keyWindowsOf(
  { cuLimit24hMilli, cuLimit30dMilli }: Pick<ApiKey, "cuLimit24hMilli" | "cuLimit30dMilli">,
  windows: { readonly day: RollingWindow; readonly month: RollingWindow } | undefined,
  openMilliCu: number,
  now: number,
): KeyWindows {
  return {
    day: windowState(windows?.day, cuLimit24hMilli, openMilliCu, now),
    month: windowState(windows?.month, cuLimit30dMilli, openMilliCu, now),
    openMilliCu,
  };
}

export function windowState(
  window: RollingWindow | undefined,
  limitMilliCu: number | undefined,
  openMilliCu: number,
  now: number,
): WindowState {
  const usedMilliCu = window?.sum(now) ?? 0;
  // There is room for a charge while the sum is at most the limit minus one milli-CU. A limit of 0 never has room.
  const roomMilliCu =
    limitMilliCu === undefined || limitMilliCu === 0 ? Infinity : limitMilliCu - 1 - openMilliCu;
  return {
    usedMilliCu,
    limitMilliCu,
    freesAt: window?.clearsAt(now, usedMilliCu - 1),
    roomAt: window?.clearsAt(now, Math.max(roomMilliCu, 0)),
    emptyAt: window?.clearsAt(now, 0),
  };
}
