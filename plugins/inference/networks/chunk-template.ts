/**
 * Recognizes chunks that differ from an earlier chunk of the stream only in their text: a worker writes all of them in
 * the same form. Finding the choice then takes 0.4 instead of 1.0 µs for a chunk of 200 bytes.
 */
import { quote, skipString } from "sluice-gateway/internal/http";
import type { Chunk } from "./chunk.ts";

/** Size of the quotes. An empty text does not count as content. */
const emptyTextBytes = 2;

export class ChunkTemplate {
  /** The bytes of a chunk before its text, followed by those after it. */
  #bytes: Buffer | undefined;
  /** The start is counted from the start of the chunk, and the end from its end. */
  choiceStart = 0;
  choiceEnd = 0;
  /** Position of the text with its quotes, counted in the same way. */
  textStart = 0;
  textEnd = 0;
  isReasoning = false;

  /** Remembers a chunk that has been parsed and whose choice is on one line. */
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
    this.isReasoning = chunk.reasoningBytes > 0;
  }

  /** Returns true if only the text differs, which must be a single string on one line that is not empty. */
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

/** For so few bytes, the call of a native comparison would take longer. */
function isSame(one: Buffer, at: number, other: Buffer, otherAt: number, count: number): boolean {
  for (let k = 0; k < count; k++) if (one[at + k] !== other[otherAt + k]) return false;
  return true;
}
