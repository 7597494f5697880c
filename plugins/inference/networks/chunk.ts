/**
 * Reads one chunk of a streamed answer without making values of it: where its choice stands, whether that carries
 * content, why it finished, what usage it reports. Everything else in it is passed over.
 */
import {
  closeBrace,
  closeBracket,
  comma,
  malformed,
  openBrace,
  openBracket,
  quote,
  rangeIs,
  skipColon,
  skipSpace,
  skipString,
  skipValue,
} from "../../../src/http/json/scan.ts";

/** What was found. One object serves all streams: it is overwritten by each chunk. */
export interface Chunk {
  /** The first choice, an object; -1: there is none. */
  choiceStart: number;
  choiceEnd: number;
  /** It carries content, or reasoning, that is not empty. */
  hasContent: boolean;
  /** Where `_content` is missing in a delta that says `reasoning` (vLLM, Ollama) alone; negative: nowhere. */
  reasoningAt: number;
  /** The one text that it carries, with its quotes; negative: none, or several. */
  textStart: number;
  textEnd: number;
  /** UTF-8 bytes of all its texts. */
  textBytes: number;
  finishReason: string | undefined;
  /** The usage object; -1: there is none. */
  usageStart: number;
  usageEnd: number;
  /** The worker reports an error instead. */
  isError: boolean;
}

const backslash = 0x5c;
const unicodeEscape = 0x75;

/** Of `reasoningAt`: there is a `reasoning_content`, and nothing to be renamed. */
const hasReasoningContent = -2;
/** Of `textStart`. */
const multipleTexts = -2;

export function emptyChunk(): Chunk {
  return {
    choiceStart: -1,
    choiceEnd: -1,
    hasContent: false,
    reasoningAt: -1,
    textStart: -1,
    textEnd: -1,
    textBytes: 0,
    finishReason: undefined,
    usageStart: -1,
    usageEnd: -1,
    isError: false,
  };
}

/** Told a member of an object: its name (with quotes) and its value. */
type Member<T> = (
  bytes: Buffer,
  nameStart: number,
  nameEnd: number,
  valueStart: number,
  valueEnd: number,
  found: T,
) => void;

/** Reads the chunk in `bytes` from `start` to `end` into `found`. False when it is no JSON object. */
export function readChunk(bytes: Buffer, start: number, end: number, found: Chunk): boolean {
  resetChoice(found);
  found.usageStart = -1;
  found.isError = false;
  const at = skipSpace(bytes, start, end);
  const after = readMembers(bytes, at, end, readChunkMember, found);
  return after !== malformed && skipSpace(bytes, after, end) === end;
}

/** Index after the object that starts at `i`, each of its members told. */
function readMembers<T>(
  bytes: Buffer,
  i: number,
  end: number,
  member: Member<T>,
  found: T,
): number {
  if (i >= end || bytes[i] !== openBrace) return malformed;
  let at = skipSpace(bytes, i + 1, end);
  if (at < end && bytes[at] === closeBrace) return at + 1;
  for (;;) {
    if (at >= end || bytes[at] !== quote) return malformed;
    const nameEnd = skipString(bytes, at, end, "trusted");
    if (nameEnd === malformed) return malformed;
    const value = skipColon(bytes, nameEnd, end);
    if (value === malformed) return malformed;
    const valueEnd = skipValue(bytes, value, end, 1, "trusted");
    if (valueEnd === malformed) return malformed;
    member(bytes, at, nameEnd, value, valueEnd, found);
    at = skipSpace(bytes, valueEnd, end);
    if (at >= end) return malformed;
    if (bytes[at] === closeBrace) return at + 1;
    if (bytes[at] !== comma) return malformed;
    at = skipSpace(bytes, at + 1, end);
  }
}

const readChunkMember: Member<Chunk> = (bytes, nameStart, nameEnd, start, end, found) => {
  if (rangeIs(bytes, nameStart, nameEnd, '"choices"')) readChoices(bytes, start, end, found);
  else if (rangeIs(bytes, nameStart, nameEnd, '"usage"')) {
    found.usageStart = bytes[start] === openBrace ? start : -1;
    found.usageEnd = end;
  } else if (rangeIs(bytes, nameStart, nameEnd, '"error"')) {
    found.isError = !rangeIs(bytes, start, end, "null");
  }
};

function resetChoice(found: Chunk): void {
  found.choiceStart = found.reasoningAt = found.textStart = -1;
  found.hasContent = false;
  found.textBytes = 0;
  found.finishReason = undefined;
}

/** Only the first choice counts: one is asked for. */
function readChoices(bytes: Buffer, start: number, end: number, found: Chunk): void {
  // Of members with the same name the last counts.
  resetChoice(found);
  if (bytes[start] !== openBracket) return;
  const at = skipSpace(bytes, start + 1, end);
  if (bytes[at] === closeBracket) return;
  const after = readMembers(bytes, at, end, readChoiceMember, found);
  if (after === malformed) return;
  found.choiceStart = at;
  found.choiceEnd = after;
}

const readChoiceMember: Member<Chunk> = (bytes, nameStart, nameEnd, start, end, found) => {
  if (rangeIs(bytes, nameStart, nameEnd, '"delta"')) {
    readMembers(bytes, start, end, readDeltaMember, found);
  } else if (rangeIs(bytes, nameStart, nameEnd, '"finish_reason"')) {
    // Some servers say `""` until it has finished.
    const isSaid = bytes[start] === quote && end - start > 2;
    found.finishReason = isSaid ? bytes.toString("utf8", start + 1, end - 1) : undefined;
  }
};

const readDeltaMember: Member<Chunk> = (bytes, nameStart, nameEnd, start, end, found) => {
  if (rangeIs(bytes, nameStart, nameEnd, '"content"')) addText(bytes, start, end, found);
  else if (rangeIs(bytes, nameStart, nameEnd, '"reasoning_content"')) {
    addText(bytes, start, end, found);
    found.reasoningAt = hasReasoningContent;
  } else if (rangeIs(bytes, nameStart, nameEnd, '"reasoning"')) {
    addText(bytes, start, end, found);
    if (found.reasoningAt !== hasReasoningContent) found.reasoningAt = nameEnd - 1;
  }
};

function addText(bytes: Buffer, start: number, end: number, found: Chunk): void {
  if (bytes[start] !== quote || end - start <= 2) return;
  found.textStart = found.hasContent ? multipleTexts : start;
  found.textEnd = end;
  found.textBytes += textBytes(bytes, start, end);
  found.hasContent = true;
}

/** The bytes in UTF-8 of a JSON string without its quotes: some servers escape all that is not ASCII. */
export function textBytes(bytes: Buffer, start: number, end: number): number {
  let count = 0;
  for (let at = start + 1; at < end - 1; count++, at++) {
    if (bytes[at] !== backslash) continue;
    at++;
    if (bytes[at] !== unicodeEscape) continue;
    // By their first two digits; each half of a surrogate pair is two of the four bytes.
    const high = Number.parseInt(bytes.toString("latin1", at + 1, at + 3), 16);
    const isAscii = high === 0 && (bytes[at + 3] ?? 0) < 0x38;
    if (!isAscii) count += high < 0x08 || (high >= 0xd8 && high < 0xe0) ? 1 : 2;
    at += 4;
  }
  return count;
}
