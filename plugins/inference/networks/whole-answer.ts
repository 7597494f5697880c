/** An answer in one JSON document. Garbage, an error or an answer that is too large is reported with `onError`. */
import type { PartialAnswer, TokenUsage, ToolCall, WholeMessage } from "sluice-gateway/services";
import { isObject } from "sluice-gateway/internal/toolkit";
import { readChoice } from "../read-json.ts";
import { readUsage } from "./token-usage.ts";
import type { AnswerSink, WorkerAnswer } from "./worker-answer.ts";

export interface WholeDocument {
  readonly finishReason: string;
  /** Undefined if the report is missing or not valid. */
  readonly usage: TokenUsage | undefined;
  /** Number of UTF-8 bytes. */
  readonly writtenBytes: number;
  /** The part of `writtenBytes` that is reasoning. Default: 0. */
  readonly reasoningBytes?: number;
  readonly native?: Buffer;
  readonly message?: WholeMessage;
}

export type ReadWhole = (bytes: Buffer) => WholeDocument | undefined;

/** Maximum size of an answer whose request has no other limit. */
const maxWholeBytes = 16 * 1024 * 1024;

const nothing: PartialAnswer = { chunks: 0, bytes: 0, reasoningChunks: 0, reasoningBytes: 0 };

export class WholeAnswer implements WorkerAnswer {
  finishReason: string | undefined = undefined;
  reported: TokenUsage | undefined = undefined;
  produced: PartialAnswer = nothing;
  readonly #sink: AnswerSink;
  readonly #read: ReadWhole;
  readonly #maxBytes: number;
  #pieces: Buffer[] = [];
  #bytes = 0;

  constructor(sink: AnswerSink, read: ReadWhole, maxBytes: number = maxWholeBytes) {
    this.#sink = sink;
    this.#read = read;
    this.#maxBytes = maxBytes;
  }

  write(bytes: Buffer, start: number, end: number): void {
    this.#bytes += end - start;
    if (this.#bytes <= this.#maxBytes) this.#pieces.push(Buffer.from(bytes.subarray(start, end)));
    else if (this.#pieces.length > 0) {
      this.#pieces = [];
      this.#sink.onError();
    }
  }

  end(): void {
    if (this.#bytes > this.#maxBytes) return;
    const document = this.#read(Buffer.concat(this.#pieces));
    this.#pieces = [];
    if (document === undefined) return this.#sink.onError();
    const { finishReason, usage, message, native, writtenBytes, reasoningBytes = 0 } = document;
    this.finishReason = finishReason;
    this.reported = usage;
    this.produced = { ...nothing, bytes: writtenBytes, reasoningBytes };
    this.#sink.onEnd(message, native);
  }
}

export const readChatCompletion: ReadWhole = (bytes) => {
  const { choices, usage } = readChoice(bytes);
  const choice: unknown = Array.isArray(choices) ? choices[0] : undefined;
  const message = isObject(choice) ? readMessage(choice) : undefined;
  if (!isObject(choice) || message === undefined) return undefined;
  const { finish_reason: reason } = choice;
  const finishReason = typeof reason === "string" ? reason : "stop";
  return { finishReason, usage: readUsage(usage), ...sizeOf(message), message };
};

function readMessage({
  message,
  logprobs,
}: Readonly<Record<string, unknown>>): WholeMessage | undefined {
  if (!isObject(message)) return undefined;
  const { content, refusal, reasoning_content: reasoningContent, reasoning } = message;
  if (content !== null && content !== undefined && typeof content !== "string") return undefined;
  const thought = reasoningContent ?? reasoning;
  const toolCalls = readToolCalls(message["tool_calls"] ?? []);
  if (toolCalls === undefined) return undefined;
  return {
    content: content ?? "",
    refusal: typeof refusal === "string" && refusal !== "" ? refusal : undefined,
    reasoningContent: typeof thought === "string" ? thought : undefined,
    toolCalls,
    logprobs: isObject(logprobs) ? logprobs : undefined,
  };
}

function readToolCalls(value: unknown): ToolCall[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const calls: ToolCall[] = [];
  for (const one of value as unknown[]) {
    const called = isObject(one) ? one["function"] : undefined;
    if (!isObject(one) || !isObject(called)) return undefined;
    const { id } = one;
    // A stream without them is a call without arguments, too.
    const { name, arguments: text = "" } = called;
    if (typeof name !== "string" || typeof text !== "string") return undefined;
    calls.push({ id: typeof id === "string" ? id : "", name, arguments: text });
  }
  return calls;
}

function sizeOf({
  content,
  refusal = "",
  reasoningContent = "",
  toolCalls,
}: WholeMessage): Pick<WholeDocument, "writtenBytes" | "reasoningBytes"> {
  const calls = toolCalls.map((call) => call.name + call.arguments);
  const writtenBytes = Buffer.byteLength([content, refusal, reasoningContent, ...calls].join(""));
  return { writtenBytes, reasoningBytes: Buffer.byteLength(reasoningContent) };
}
