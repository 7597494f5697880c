/**
 * Reads one chunk of a streamed answer without creating JavaScript values: the position of its choice, whether the
 * choice has content, the finish reason and the usage report. All other members are skipped.
 */
import {
  closeBracket,
  malformed,
  openBrace,
  openBracket,
  quote,
  rangeIs,
  readMembers,
  skipSpace,
  skipString,
  skipValue,
  type ReadMember,
} from "sluice-gateway/internal/http";

/** The parts of a chunk. One object serves all streams; each chunk overwrites it. */
export interface Chunk {
  /** Start of the first choice, an object; -1 if there is none. */
  choiceStart: number;
  choiceEnd: number;
  /** True if it has content, reasoning or a call of a tool that is not empty. */
  hasContent: boolean;
  /**
   * Position at which `_content` must be inserted in a delta that has only `reasoning` (vLLM, Ollama). Negative if
   * nothing must be inserted.
   */
  reasoningAt: number;
  /** Start of the text, including the quotes; negative unless the chunk has exactly one text. */
  textStart: number;
  textEnd: number;
  /** Number of UTF-8 bytes of all texts. */
  textBytes: number;
  reasoningBytes: number;
  finishReason: string | undefined;
  /** Start of the usage object; -1 if there is none. */
  usageStart: number;
  usageEnd: number;
  /** True if the worker reports an error instead of a choice. */
  isError: boolean;
  hasEscapedName: boolean;
}

const comma = 0x2c;
const colon = 0x3a;
const backslash = 0x5c;
const unicodeEscape = 0x75;

/** Value of `reasoningAt` if there is a `reasoning_content`, so that nothing is renamed. */
const hasReasoningContent = -2;
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
    reasoningBytes: 0,
    finishReason: undefined,
    usageStart: -1,
    usageEnd: -1,
    isError: false,
    hasEscapedName: false,
  };
}

/** Overwrites `found`. Returns false if the chunk is not a JSON object or hides texts. */
export function readChunk(bytes: Buffer, start: number, end: number, found: Chunk): boolean {
  resetChoice(found);
  found.usageStart = -1;
  found.isError = false;
  const at = skipSpace(bytes, start, end);
  const after = readMembers(bytes, at, end, 0, "trusted", readChunkMember, found);
  return after !== malformed && !found.hasEscapedName && skipSpace(bytes, after, end) === end;
}

const readChunkMember: ReadMember<Chunk> = (bytes, nameStart, nameEnd, start, end, found) => {
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
  found.hasContent = found.hasEscapedName = false;
  found.textBytes = found.reasoningBytes = 0;
  found.finishReason = undefined;
}

/** Reads the first choice only, because requests ask for one. */
function readChoices(bytes: Buffer, start: number, end: number, found: Chunk): void {
  // If a member occurs twice, the last one counts.
  resetChoice(found);
  if (bytes[start] !== openBracket) return;
  const at = skipSpace(bytes, start + 1, end);
  if (bytes[at] === closeBracket) return;
  const after = readMembers(bytes, at, end, 0, "trusted", readChoiceMember, found);
  if (after === malformed) return;
  found.choiceStart = at;
  found.choiceEnd = after;
}

/** The renderers also read names with escapes, so what such members have would not be counted. */
function unescaped(read: ReadMember<Chunk>): ReadMember<Chunk> {
  return (bytes, nameStart, nameEnd, start, end, found) => {
    for (let at = nameStart; at < nameEnd; at++)
      if (bytes[at] === backslash) found.hasEscapedName = true;
    read(bytes, nameStart, nameEnd, start, end, found);
  };
}

const readChoiceMember = unescaped((bytes, nameStart, nameEnd, start, end, found) => {
  if (rangeIs(bytes, nameStart, nameEnd, '"delta"')) {
    readMembers(bytes, start, end, 0, "trusted", readDeltaMember, found);
  } else if (rangeIs(bytes, nameStart, nameEnd, '"finish_reason"')) {
    // Some servers send `""` until the answer is finished.
    const isGiven = bytes[start] === quote && end - start > 2;
    found.finishReason = isGiven ? bytes.toString("utf8", start + 1, end - 1) : undefined;
  }
});

const readDeltaMember = unescaped((bytes, nameStart, nameEnd, start, end, found) => {
  if (
    rangeIs(bytes, nameStart, nameEnd, '"content"') ||
    rangeIs(bytes, nameStart, nameEnd, '"refusal"')
  ) {
    addTexts(bytes, start, end, found);
  } else if (rangeIs(bytes, nameStart, nameEnd, '"reasoning_content"')) {
    addReasoning(bytes, start, end, found);
    found.reasoningAt = hasReasoningContent;
  } else if (rangeIs(bytes, nameStart, nameEnd, '"reasoning"')) {
    addReasoning(bytes, start, end, found);
    if (found.reasoningAt !== hasReasoningContent) found.reasoningAt = nameEnd - 1;
  } else if (rangeIs(bytes, nameStart, nameEnd, '"tool_calls"')) {
    readToolCalls(bytes, start, end, found);
  } else if (rangeIs(bytes, nameStart, nameEnd, '"function_call"')) {
    readMembers(bytes, start, end, 0, "trusted", readFunctionMember, found);
  }
});

/**
 * The names and arguments of tool calls count as texts: the model has written them. So does a text in the place of a
 * call, because the client gets it.
 */
function readToolCalls(bytes: Buffer, start: number, end: number, found: Chunk): void {
  if (bytes[start] !== openBracket) return;
  let at = start;
  do {
    at = skipSpace(bytes, at + 1, end);
    const isCall = bytes[at] === openBrace;
    const after = isCall
      ? readMembers(bytes, at, end, 0, "trusted", readToolCallMember, found)
      : skipValue(bytes, at, end, 0, "trusted");
    if (after === malformed) return;
    if (!isCall) addTexts(bytes, at, after, found);
    at = skipSpace(bytes, after, end);
  } while (bytes[at] === comma);
}

const readToolCallMember = unescaped((bytes, nameStart, nameEnd, start, end, found) => {
  const isCalled =
    rangeIs(bytes, nameStart, nameEnd, '"function"') ||
    rangeIs(bytes, nameStart, nameEnd, '"custom"');
  if (isCalled) {
    readMembers(bytes, start, end, 0, "trusted", readFunctionMember, found);
  }
});

const readFunctionMember = unescaped((bytes, nameStart, nameEnd, start, end, found) => {
  const isText =
    rangeIs(bytes, nameStart, nameEnd, '"name"') ||
    rangeIs(bytes, nameStart, nameEnd, '"arguments"') ||
    rangeIs(bytes, nameStart, nameEnd, '"input"');
  if (isText) addTexts(bytes, start, end, found);
});

/** Adds all texts of a value, without the names of members. */
function addTexts(bytes: Buffer, start: number, end: number, found: Chunk): void {
  for (let at = start; at < end; at++) {
    if (bytes[at] !== quote) continue;
    const after = skipString(bytes, at, end, "trusted");
    if (after === malformed) return;
    if (bytes[skipSpace(bytes, after, end)] !== colon) addText(bytes, at, after, found);
    at = after - 1;
  }
}

function addText(bytes: Buffer, start: number, end: number, found: Chunk): void {
  if (end - start <= 2) return;
  found.textStart = found.hasContent ? multipleTexts : start;
  found.textEnd = end;
  found.textBytes += textBytes(bytes, start, end);
  found.hasContent = true;
}

function addReasoning(bytes: Buffer, start: number, end: number, found: Chunk): void {
  const before = found.textBytes;
  addTexts(bytes, start, end, found);
  found.reasoningBytes += found.textBytes - before;
}

/**
 * Returns the number of UTF-8 bytes of a JSON string without its quotes. Some servers escape everything that is not
 * ASCII.
 */
export function textBytes(bytes: Buffer, start: number, end: number): number {
  let count = 0;
  for (let at = start + 1; at < end - 1; count++, at++) {
    if (bytes[at] !== backslash) continue;
    at++;
    if (bytes[at] !== unicodeEscape) continue;
    // The first two digits decide. Each half of a surrogate pair counts as two of the four bytes.
    const high = Number.parseInt(bytes.toString("latin1", at + 1, at + 3), 16);
    const isAscii = high === 0 && (bytes[at + 3] ?? 0) < 0x38;
    if (!isAscii) count += high < 0x08 || (high >= 0xd8 && high < 0xe0) ? 1 : 2;
    at += 4;
  }
  return count;
}
