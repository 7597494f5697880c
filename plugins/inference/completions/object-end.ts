/** Finds the end of a JSON object that arrives in pieces. Reads each character once, however many pieces there are. */
const quote = 0x22;
const backslash = 0x5c;
const openBrace = 0x7b;
const closeBrace = 0x7d;

export class ObjectEnd {
  /** True after the brace that closes the object. Exact for valid JSON. */
  isReached = false;
  #depth = 0;
  #isInString = false;
  #isEscaped = false;

  add(text: string): void {
    for (let at = 0; at < text.length && !this.isReached; at++) {
      const unit = text.charCodeAt(at);
      if (this.#isEscaped) this.#isEscaped = false;
      else if (this.#isInString && unit === backslash) this.#isEscaped = true;
      else if (unit === quote) this.#isInString = !this.#isInString;
      else if (this.#isInString) continue;
      else if (unit === openBrace) this.#depth++;
      else if (unit === closeBrace) this.isReached = --this.#depth <= 0;
    }
  }
}
