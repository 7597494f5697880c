/** Bytes that stay as long as an answer takes. */

/**
 * The text in UTF-8, in memory of its own. What `Buffer.from` makes is a slice of 64 KiB that chunks share which live
 * for a moment: each stream would keep one of those from being freed, more than all else of it takes.
 */
export function lastingBytes(text: string): Buffer {
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text));
  bytes.write(text);
  return bytes;
}
