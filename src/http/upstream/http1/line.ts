import { BodyCollector } from "./body-collector.ts";

/** Fields of a few kilobytes occur: cookies, and policies for the content of pages. */
const maxLineBytes = 16 * 1024;

const HT = 9;
const LF = 10;
const CR = 13;
export const SPACE = 32;
const COLON = 58;
export const SEMICOLON = 59;
const DEL = 127;

export const UNFINISHED = -1;
export const BAD = -2;

/** RFC 9110 section 5.6.2 `tchar`, by byte. */
const TOKEN = new Uint8Array(256);
for (const char of "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
  TOKEN[char.charCodeAt(0)] = 1;
}

export class LineSplitter {
  /** The last line that `take` found: `bytes[from, until)` without its CRLF. It is borrowed. */
  bytes: Buffer = Buffer.alloc(0);
  from = 0;
  until = 0;
  /** The start of a line whose end has not arrived yet. */
  readonly #carry = new BodyCollector();

  /** Returns the index after the line; `UNFINISHED` without its end; `BAD` for a bare LF or a line that is too long. */
  take(piece: Buffer, at: number, to: number): number {
    // Pieces often end where a line would start. Then nothing is kept.
    if (at === to) return UNFINISHED;
    let end = at;
    while (end < to && piece[end] !== LF) end++;
    if (this.#carry.end + end - at >= maxLineBytes) return BAD;
    if (end === to || this.#carry.end > 0) {
      this.#carry.add(piece, at, end, -1);
      if (end === to) return UNFINISHED;
      this.bytes = this.#carry.bytes;
      this.from = 0;
      this.until = this.#carry.end - 1;
      this.reset();
    } else {
      this.bytes = piece;
      this.from = at;
      this.until = end - 1;
    }
    return this.until >= this.from && this.bytes[this.until] === CR ? end + 1 : BAD;
  }

  reset(): void {
    this.#carry.end = 0;
  }
}

export function colonOf(line: Buffer, from: number, until: number): number {
  const colon = skipToken(line, from, until);
  const hasName = colon > from && colon < until && line[colon] === COLON;
  return hasName && isFieldValue(line, colon + 1, until) ? colon : -1;
}

function skipToken(line: Buffer, from: number, until: number): number {
  let at = from;
  while (at < until && TOKEN[line[at] ?? 0] === 1) at++;
  return at;
}

export function skipBlanks(line: Buffer, from: number, until: number): number {
  let at = from;
  while (at < until && (line[at] === SPACE || line[at] === HT)) at++;
  return at;
}

export function trimmedEnd(line: Buffer, from: number, until: number): number {
  let end = until;
  while (end > from && (line[end - 1] === SPACE || line[end - 1] === HT)) end--;
  return end;
}

/** Returns true for visible characters, blanks and obs-text, without CR, NUL and other control characters. */
export function isFieldValue(line: Buffer, from: number, until: number): boolean {
  for (let at = from; at < until; at++) {
    const byte = line[at] ?? 0;
    if ((byte < SPACE && byte !== HT) || byte === DEL) return false;
  }
  return true;
}

export function decimal(line: Buffer, from: number, until: number): number {
  if (from === until || until - from > 15) return -1;
  let value = 0;
  for (let at = from; at < until; at++) {
    const digit = (line[at] ?? 0) - 48;
    if (digit < 0 || digit > 9) return -1;
    value = value * 10 + digit;
  }
  return value;
}

export function hexDigit(byte: number): number {
  if (byte >= 48 && byte <= 57) return byte - 48;
  const letter = byte | 32;
  return letter >= 97 && letter <= 102 ? letter - 87 : -1;
}

/** Ignores case. The line must not contain control bytes. `word`: lower case. */
export function isWord(line: Buffer, from: number, until: number, word: string): boolean {
  if (until - from !== word.length) return false;
  for (let i = 0; i < word.length; i++) {
    if (((line[from + i] ?? 0) | 32) !== word.charCodeAt(i)) return false;
  }
  return true;
}
