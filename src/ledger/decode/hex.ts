/** From hex text to bytes, natively, into memory that is used again. */

/** Beyond this a buffer is made for the occasion. */
const keptBytes = 1 << 20;
let kept: Buffer | undefined;

/**
 * The bytes of `text[start, end)`, which is hex digits without `0x`; undefined when it is not. Borrowed: valid until
 * the next call in this thread.
 */
export function hexBytes(text: string, start: number, end: number): Buffer | undefined {
  const length = (end - start) >> 1;
  if ((end - start) % 2 !== 0) return undefined;
  const room =
    length > keptBytes
      ? Buffer.allocUnsafeSlow(length)
      : (kept ??= Buffer.allocUnsafeSlow(keptBytes));
  // Stops at the first pair that is not hex.
  const written = room.write(text.slice(start, end), 0, length, "hex");
  return written === length ? room.subarray(0, length) : undefined;
}
