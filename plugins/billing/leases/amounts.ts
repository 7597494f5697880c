/** Arithmetic with amounts by source. All results have the length of the first parameter. */
import type { Amounts } from "./ledger.ts";

export function sum(amounts: Amounts): number {
  let total = 0;
  for (const amount of amounts) total += amount;
  return total;
}

export function add(left: Amounts, right: Amounts): Amounts {
  return left.map((amount, source) => amount + (right[source] ?? 0));
}

export function difference(left: Amounts, right: Amounts): Amounts {
  return left.map((amount, source) => amount - (right[source] ?? 0));
}

/** Takes up to `milliCu` from `available`, the first source first. */
export function takeInOrder(available: Amounts, milliCu: number): Amounts {
  let left = milliCu;
  return available.map((amount) => {
    const taken = Math.min(amount, left);
    left -= taken;
    return taken;
  });
}

/** Takes up to `milliCu` from `available`, the last source first. */
export function takeFromEnd(available: Amounts, milliCu: number): Amounts {
  return takeInOrder(available.toReversed(), milliCu).toReversed();
}
