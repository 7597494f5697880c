/** Throws RangeError if the amount is not a positive safe integer, which is a bug of the caller. */
export function checkAmount(amountMilliCu: number): void {
  if (Number.isSafeInteger(amountMilliCu) && amountMilliCu > 0) return;
  throw new RangeError(`cannot add ${amountMilliCu} milli-CU of purchased credit`);
}
