/** Builds a whole answer from the deltas of an enclave. */
import type { ToolCall, WholeMessage } from "sluice-gateway/services";
import { isObject } from "sluice-gateway/internal/toolkit";

type Json = Readonly<Record<string, unknown>>;

type OpenCall = { -readonly [Member in keyof ToolCall]: ToolCall[Member] };

const maxChars = 16 * 1024 * 1024;
/** Size of a list entry in addition to its texts. */
const entryChars = 64;

interface DeltaText {
  readonly content: string;
  readonly reasoning: string;
  readonly called: string;
}

function textOfDelta(delta: Json): DeltaText {
  const { content, reasoning_content: reasoning } = delta;
  const called = callsOf(delta).map(({ name, text }) => name + text);
  return { content: textOf(content), reasoning: textOf(reasoning), called: called.join("") };
}

export function addDelta(
  produced: { chunks: number; bytes: number; reasoningChunks: number; reasoningBytes: number },
  delta: Json,
): void {
  const { content, reasoning, called } = textOfDelta(delta);
  const bytes = Buffer.byteLength(content + reasoning + called);
  if (bytes > 0) produced.chunks++;
  produced.bytes += bytes;
  if (reasoning !== "") produced.reasoningChunks++;
  produced.reasoningBytes += Buffer.byteLength(reasoning);
}

/** Returns a choice of OpenAI's API. `delta`, `logprobs`: JSON. */
export function choiceOf(delta: string, finishReason: string | null, logprobs?: string): Buffer {
  const finish = JSON.stringify(finishReason);
  const more = logprobs === undefined ? "" : `"logprobs":${logprobs},`;
  return Buffer.from(`{"index":0,"delta":${delta},${more}"finish_reason":${finish}}`);
}

export class MessageBuilder {
  #content = "";
  #reasoning = "";
  readonly #calls: OpenCall[] = [];
  /** The calls by index, which a later call can reuse. */
  readonly #open = new Map<number, OpenCall>();
  readonly #logprobs: unknown[] = [];
  #chars = 0;

  /** Returns false if the answer is too large. */
  add(delta: Json): boolean {
    const { content, reasoning, called } = textOfDelta(delta);
    this.#content += content;
    this.#reasoning += reasoning;
    this.#chars += content.length + reasoning.length + called.length;
    for (const { index, id, name, text } of callsOf(delta)) {
      const call = this.#callAt(index, id);
      if (call.name === "") call.name = name;
      call.arguments += text;
    }
    for (const entry of logprobsOf(delta)) {
      this.#chars += JSON.stringify(entry).length;
      this.#logprobs.push(entry);
    }
    return this.#chars <= maxChars;
  }

  /** Returns undefined if a call has no name. */
  message(): WholeMessage | undefined {
    if (this.#calls.some(({ name }) => name === "")) return undefined;
    return {
      content: this.#content,
      reasoningContent: this.#reasoning === "" ? undefined : this.#reasoning,
      toolCalls: this.#calls,
      logprobs: this.#logprobs.length === 0 ? undefined : { content: this.#logprobs },
    };
  }

  #callAt(index: number, id: string): OpenCall {
    const known = this.#open.get(index);
    const isSame = known !== undefined && (id === "" || known.id === "" || known.id === id);
    if (isSame) {
      if (known.id === "") known.id = id;
      return known;
    }
    const call = { id, name: "", arguments: "" };
    this.#chars += id.length + entryChars;
    this.#calls.push(call);
    this.#open.set(index, call);
    return call;
  }
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
