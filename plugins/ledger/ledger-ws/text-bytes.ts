/** The sizes of notifications, which all clients of a subscription share. */
let lastText = "";
let lastBytes = 0;

/**
 * Returns the number of bytes of a text in UTF-8. A notification is given to all its clients one after the other, so the
 * bytes of the last text are remembered. They are counted once per notification and not once per client.
 */
export function bytesOf(text: string): number {
  if (text !== lastText) {
    lastText = text;
    lastBytes = Buffer.byteLength(text);
  }
  return lastBytes;
}
