/**
 * Puts parts of deltas into as few deltas as possible, so that sizes of frames do not show the parts in which the model
 * wrote them.
 */
import { isAbsent, isObject } from "sluice-gateway/internal/toolkit";
import type { JsonObject } from "../protocol/strict-json.ts";

/** The pieces of a call of a tool have the same index. */
interface CallPiece {
  readonly index: number;
  /** `id`, `type` and the name of the function. Usually only the first piece of a call has them. */
  readonly head: JsonObject;
  readonly name: string | undefined;
  arguments: string;
}

export interface DeltaParts {
  readonly role: string | undefined;
  readonly reasoning: string;
  readonly content: string;
  readonly calls: readonly CallPiece[];
}

const pieceChars = 4_096;
/** Cost of a piece in addition to its characters, for the JSON around it. */
const pieceCost = 32;
/**
 * Maximum cost of one delta: two whole pieces, such as reasoning and content. JSON escapes a character with at most six
 * bytes, so a delta has at most 6 × 8,256 = 49,536 bytes, and a frame of 65,536 has room for the rest of the chunk.
 */
const maxCost = 2 * (pieceChars + pieceCost);
/** Maximum number of calls in a delta, and of characters of a name. Others are not combined. */
const maxCalls = 16;
const maxNameChars = 256;

/** Undefined if the delta has anything that cannot be combined. */
export function partsOf(delta: JsonObject): DeltaParts | undefined {
  const { role, content, reasoning_content: reasoning, tool_calls: list, ...more } = delta;
  const calls = isAbsent(list) ? [] : callPieces(list);
  if (calls === undefined || !areAbsent(more)) return undefined;
  return {
    role: typeof role === "string" ? role : undefined,
    reasoning: typeof reasoning === "string" ? reasoning : "",
    content: typeof content === "string" ? content : "",
    calls,
  };
}

function callPieces(list: unknown): readonly CallPiece[] | undefined {
  if (!Array.isArray(list) || list.length > maxCalls) return undefined;
  const calls = list.map(callPiece).filter((call) => call !== undefined);
  const indices = new Set(calls.map(({ index }) => index));
  return indices.size === list.length ? calls : undefined;
}

function callPiece(call: unknown): CallPiece | undefined {
  if (!isObject(call)) return undefined;
  const { index, id, type, function: called = {}, ...more } = call;
  if (!isObject(called) || !Number.isSafeInteger(index) || !areAbsent(more)) return undefined;
  const { name, arguments: text, ...others } = called;
  if (![id, type, name].every(isName) || !areAbsent(others)) return undefined;
  if (!isAbsent(text) && typeof text !== "string") return undefined;
  const head = { ...(!isAbsent(id) && { id }), ...(!isAbsent(type) && { type }) };
  const given = typeof name === "string" ? name : undefined;
  return { index: Number(index), head, name: given, arguments: text ?? "" };
}

function isName(value: unknown): boolean {
  return isAbsent(value) || (typeof value === "string" && value.length <= maxNameChars);
}

function areAbsent(members: JsonObject): boolean {
  return Object.values(members).every(isAbsent);
}

/**
 * Splits a delta that is too long for a frame and cannot be combined: each call is sent apart, and its arguments in
 * pieces. Some servers send a whole call at once.
 */
export function splitDelta({ tool_calls: list, ...others }: JsonObject): readonly JsonObject[] {
  if (!Array.isArray(list)) return [others];
  const calls = list.flatMap((call: unknown, place) => splitCall(call, place));
  const first = Object.keys(others).length > 0 ? [others] : [];
  return [...first, ...calls.map((call) => ({ tool_calls: [call] }))];
}

function splitCall(call: unknown, place: number): readonly unknown[] {
  const called = isObject(call) ? call["function"] : undefined;
  const text = isObject(called) ? called["arguments"] : undefined;
  if (!isObject(call) || !isObject(called) || typeof text !== "string") return [call];
  const { index = place } = call;
  const [first = "", ...rest] = pieces(text);
  return [
    { ...call, index, function: { ...called, arguments: first } },
    ...rest.map((more) => ({ index, function: { arguments: more } })),
  ];
}

export class PendingDelta {
  #role: string | undefined;
  #reasoning = "";
  #content = "";
  readonly #calls = new Map<number, CallPiece>();
  #logprobs: JsonObject[] = [];

  /**
   * Returns true if the pending parts must be sent before these are added. In one delta, reasoning comes before
   * content, content comes before calls, and a call begins once.
   */
  mustPrecede({ reasoning, content, calls }: DeltaParts): boolean {
    const hasCalls = this.#calls.size > 0;
    if (reasoning !== "" && (this.#content !== "" || hasCalls)) return true;
    if (content !== "" && hasCalls) return true;
    return calls.some((call) => this.#calls.has(call.index) && isBeginning(call));
  }

  add({ role, reasoning, content, calls }: DeltaParts): void {
    this.#role ??= role;
    this.#reasoning += reasoning;
    this.#content += content;
    for (const call of calls) {
      const known = this.#calls.get(call.index);
      if (known === undefined) this.#calls.set(call.index, call);
      else known.arguments += call.arguments;
    }
  }

  /** An entry that does not fit into a delta is dropped. */
  addLogprobs(entries: readonly unknown[]): void {
    const added = entries.filter((one) => isObject(one) && sizeOf(one) <= maxCost - pieceCost);
    this.#logprobs.push(...(added as JsonObject[]));
  }

  clear(): void {
    this.#role = undefined;
    this.#reasoning = this.#content = "";
    this.#calls.clear();
    this.#logprobs = [];
  }

  take(): readonly JsonObject[] {
    const packer = new Packer(this.#role);
    for (const text of pieces(this.#reasoning)) packer.text("reasoning_content", text);
    for (const text of pieces(this.#content)) packer.text("content", text);
    for (const call of this.#calls.values()) packer.call(call);
    for (const entry of this.#logprobs) packer.logprob(entry);
    this.clear();
    return packer.end();
  }
}

function isBeginning({ head, name }: CallPiece): boolean {
  return name !== undefined || Object.keys(head).length > 0;
}

function sizeOf(value: JsonObject): number {
  return JSON.stringify(value).length;
}

interface PackedDelta {
  role?: string;
  reasoning_content?: string;
  content?: string;
  tool_calls?: JsonObject[];
  logprobs?: { readonly content: JsonObject[] };
}

class Packer {
  readonly #deltas: PackedDelta[] = [];
  #last: PackedDelta | undefined;
  #cost = 0;

  constructor(role: string | undefined) {
    if (role !== undefined) this.#lastFor(role.length).role = role;
  }

  text(name: "reasoning_content" | "content", text: string): void {
    const isTaken = this.#last?.[name] !== undefined;
    this.#lastFor(text.length, isTaken)[name] = text;
  }

  call({ index, head, name, arguments: text }: CallPiece): void {
    const [first = "", ...rest] = pieces(text);
    const named = { ...head, function: { ...(name !== undefined && { name }), arguments: first } };
    const delta = this.#lastFor(sizeOf(head) + (name ?? "").length + first.length);
    (delta.tool_calls ??= []).push({ index, ...named });
    for (const more of rest) {
      const call = { index, function: { arguments: more } };
      this.#lastFor(more.length, true).tool_calls = [call];
    }
  }

  logprob(entry: JsonObject): void {
    const delta = this.#lastFor(sizeOf(entry));
    (delta.logprobs ??= { content: [] }).content.push(entry);
  }

  end(): readonly JsonObject[] {
    return this.#deltas.map((delta) => ({ ...delta }));
  }

  /** Returns the last delta if it has room for a piece of this size, else a new one. */
  #lastFor(chars: number, isNew = false): PackedDelta {
    const cost = chars + pieceCost;
    if (this.#last === undefined || isNew || this.#cost + cost > maxCost) {
      this.#last = {};
      this.#cost = 0;
      this.#deltas.push(this.#last);
    }
    this.#cost += cost;
    return this.#last;
  }
}

/** An empty text has no pieces. Surrogate pairs are not split. */
function pieces(text: string): string[] {
  const found: string[] = [];
  for (let at = 0; at < text.length;) {
    let end = Math.min(at + pieceChars, text.length);
    const last = text.charCodeAt(end - 1);
    if (end < text.length && last >= 0xd800 && last < 0xdc00) end--;
    found.push(text.slice(at, end));
    at = end;
  }
  return found;
}
