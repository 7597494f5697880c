/** Passes the deltas of an enclave on to the call, as choices or as one message. */
import type { AttemptedCall, ToolCall, WholeMessage } from "sluice-gateway/services";
import { isObject, ObjectEnd } from "sluice-gateway/internal/toolkit";

type Json = Readonly<Record<string, unknown>>;

interface OpenCall {
  readonly call: { -readonly [Member in keyof ToolCall]: ToolCall[Member] };
  /** The end of its arguments. */
  readonly end: ObjectEnd;
}

const maxChars = 16 * 1024 * 1024;
/** Size of a list entry in addition to its texts. */
const entryChars = 64;

interface DeltaText {
  readonly content: string;
  readonly refusal: string;
  readonly reasoning: string;
  readonly called: string;
}

function textOfDelta(delta: Json): DeltaText {
  const { content, refusal, reasoning_content: reasoning } = delta;
  const called = callsOf(delta).map(({ name, text }) => name + text);
  const texts = { content: textOf(content), refusal: textOf(refusal) };
  return { ...texts, reasoning: textOf(reasoning), called: called.join("") };
}

/** Each delta is a choice if the answer is streamed. Otherwise all deltas are one message. */
export class AnswerBuilder {
  readonly produced = { chunks: 0, bytes: 0, reasoningChunks: 0, reasoningBytes: 0 };
  readonly #call: AttemptedCall;
  readonly #message = new MessageBuilder();

  constructor(call: AttemptedCall) {
    this.#call = call;
  }

  /** `json`: the text of the delta, if it is known. Returns false if the answer is too large. */
  add(delta: Json, json?: string): boolean {
    const text = textOfDelta(delta);
    this.#count(text);
    if (!this.#call.request.streamed) return this.#message.add(delta, text);
    const { logprobs, ...own } = delta;
    if (logprobs === undefined) this.#passOn(json ?? JSON.stringify(own), null);
    else this.#passOn(JSON.stringify(own), null, JSON.stringify(logprobs));
    return true;
  }

  /** Adds the last choice of a stream. */
  finish(finishReason: string): void {
    if (this.#call.request.streamed) this.#passOn("{}", finishReason);
  }

  /** Returns undefined if the answer is streamed, and "nameless" if a call has no name. */
  whole(): WholeMessage | "nameless" | undefined {
    if (this.#call.request.streamed) return undefined;
    return this.#message.message() ?? "nameless";
  }

  #count({ content, refusal, reasoning, called }: DeltaText): void {
    const { produced } = this;
    const bytes = Buffer.byteLength(content + refusal + reasoning + called);
    if (bytes > 0) produced.chunks++;
    produced.bytes += bytes;
    if (reasoning !== "") produced.reasoningChunks++;
    produced.reasoningBytes += Buffer.byteLength(reasoning);
  }

  /** `delta`, `logprobs`: JSON. */
  #passOn(delta: string, finishReason: string | null, logprobs?: string): void {
    const finish = JSON.stringify(finishReason);
    const more = logprobs === undefined ? "" : `"logprobs":${logprobs},`;
    const choice = Buffer.from(`{"index":0,"delta":${delta},${more}"finish_reason":${finish}}`);
    this.#call.onChoice(choice, 0, choice.length);
    this.#call.onRead();
  }
}

class MessageBuilder {
  #content = "";
  #refusal = "";
  #reasoning = "";
  readonly #calls: OpenCall[] = [];
  /** The calls by index, which a later call can reuse. */
  readonly #open = new Map<number, OpenCall>();
  readonly #logprobs: unknown[] = [];
  #chars = 0;

  /** Returns false if the answer is too large. */
  add(delta: Json, { content, refusal, reasoning, called }: DeltaText): boolean {
    this.#content += content;
    this.#refusal += refusal;
    this.#reasoning += reasoning;
    this.#chars += content.length + refusal.length + reasoning.length + called.length;
    for (const piece of callsOf(delta)) {
      const { call, end } = this.#callOf(piece);
      if (call.name === "") call.name = piece.name;
      call.arguments += piece.text;
      end.add(piece.text);
    }
    for (const entry of logprobsOf(delta)) {
      this.#chars += JSON.stringify(entry).length;
      this.#logprobs.push(entry);
    }
    return this.#chars <= maxChars;
  }

  /** Returns undefined if a call has no name. */
  message(): WholeMessage | undefined {
    const toolCalls = this.#calls.map(({ call }) => call);
    if (toolCalls.some(({ name }) => name === "")) return undefined;
    return {
      content: this.#content,
      refusal: this.#refusal === "" ? undefined : this.#refusal,
      reasoningContent: this.#reasoning === "" ? undefined : this.#reasoning,
      toolCalls,
      logprobs: this.#logprobs.length === 0 ? undefined : { content: this.#logprobs },
    };
  }

  #callOf(piece: CallPiece): OpenCall {
    const { index, id } = piece;
    const known = this.#open.get(index);
    if (known !== undefined && !beginsAnother(known, piece)) {
      known.call.id ||= id;
      return known;
    }
    const opened = { call: { id, name: "", arguments: "" }, end: new ObjectEnd() };
    this.#chars += id.length + entryChars;
    this.#calls.push(opened);
    this.#open.set(index, opened);
    return opened;
  }
}

/**
 * Returns true if a piece does not continue the last call of its index. Some servers repeat the name in every piece, and
 * some give all calls the same index and no id.
 */
function beginsAnother({ call, end }: OpenCall, { id, name, text }: CallPiece): boolean {
  if (id !== "" && call.id !== "") return id !== call.id;
  if (name === "" || call.name === "") return false;
  return name !== call.name || (end.isReached && text.trim() !== "");
}

function logprobsOf({ logprobs }: Json): readonly unknown[] {
  const entries = isObject(logprobs) ? logprobs["content"] : undefined;
  return Array.isArray(entries) ? entries : [];
}

interface CallPiece {
  readonly index: number;
  readonly id: string;
  readonly name: string;
  readonly text: string;
}

/** Entries that are not calls are skipped. One without an index has the index of its place. */
function callsOf({ tool_calls: list }: Json): readonly CallPiece[] {
  if (!Array.isArray(list)) return [];
  return list.flatMap((one: unknown, place) => {
    if (!isObject(one)) return [];
    const { index, id, function: called } = one;
    const { name, arguments: text } = isObject(called) ? called : {};
    const at = typeof index === "number" ? index : place;
    return { index: at, id: textOf(id), name: textOf(name), text: textOf(text) };
  });
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
