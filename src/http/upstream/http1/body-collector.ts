/** A body of known length that arrives in one piece is not copied; a body in several pieces is assembled. */
const empty = Buffer.alloc(0);

export class BodyCollector {
  /** The body is `bytes[start, end)` when it is complete. It is borrowed until the exchange's `onEnd` returns. */
  bytes: Buffer = empty;
  start = 0;
  end = 0;

  /** Adds a borrowed piece. `length`: the announced size of the whole body, or -1. */
  add(piece: Buffer, start: number, end: number, length: number): void {
    if (end - start === length) {
      this.bytes = piece;
      this.start = start;
      this.end = end;
      return;
    }
    const size = this.end + end - start;
    if (size > this.bytes.length) {
      const larger = Buffer.allocUnsafe(Math.max(size, length, 2 * this.bytes.length));
      this.bytes.copy(larger, 0, 0, this.end);
      this.bytes = larger;
    }
    piece.copy(this.bytes, this.end, start, end);
    this.end = size;
  }
}
