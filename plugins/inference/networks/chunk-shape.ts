/**
 * What the chunks of one stream have in common: a worker writes them all alike, and what changes from one to the next
 * is a text. One whose other bytes are those of a chunk that was read before is not read again: from bytes to choice
 * 0.4 instead of 1.0 µs, for chunks of 200 bytes.
 */
import { quote, skipString } from "../../../src/http/json/scan.ts";
import type { Chunk } from "./chunk.ts";

/** A text that is empty is no content. */
const emptyTextBytes = 2;

export class ChunkShape {
  /** The bytes of a chunk before its text, and then those after it. */
  #bytes: Buffer | undefined;
  /** Where its choice starts, from its start, and ends, from its end. */
  choiceStart = 0;
  choiceEnd = 0;
  /** Where its text starts, from its start, and ends, from its end, with its quotes. */
  textStart = 0;
  textEnd = 0;

  /** Remembers a chunk that has been read, and whose choice stands on one line. */
  remember(bytes: Buffer, start: number, end: number, chunk: Chunk): void {
    const { textStart, textEnd } = chunk;
    this.textStart = textStart - start;
    this.textEnd = end - textEnd;
    const size = this.textStart + this.textEnd;
    if (this.#bytes === undefined || this.#bytes.length < size) {
      this.#bytes = Buffer.allocUnsafeSlow(size);
    }
    bytes.copy(this.#bytes, 0, start, textStart);
    bytes.copy(this.#bytes, this.textStart, textEnd, end);
    this.choiceStart = chunk.choiceStart - start;
    this.choiceEnd = end - chunk.choiceEnd;
  }

  /** Whether this chunk is as the remembered one but for its text, which is one, on one line and not empty. */
  matches(bytes: Buffer, start: number, end: number): boolean {
    const known = this.#bytes;
    const textStart = start + this.textStart;
    const textEnd = end - this.textEnd;
    if (known === undefined || textEnd - textStart <= emptyTextBytes) return false;
    return (
      bytes[textStart] === quote &&
      isSame(bytes, textEnd, known, this.textStart, this.textEnd) &&
      isSame(bytes, start, known, 0, this.textStart) &&
      skipString(bytes, textStart, textEnd, "strict") === textEnd
    );
  }
}

/** Compares `count` bytes: a native comparison costs more to call than so few take. */
function isSame(one: Buffer, at: number, other: Buffer, otherAt: number, count: number): boolean {
  for (let k = 0; k < count; k++) if (one[at + k] !== other[otherAt + k]) return false;
  return true;
}
