/**
 * Reads how answers of the Responses API and the Messages API end, their usage, and how much the model has written.
 * Everything else is passed on.
 */
import type { TokenUsage } from "sluice-gateway/services";
import { isObject } from "sluice-gateway/internal/toolkit";
import { readChoice } from "../read-json.ts";
import { isCount, readUsage } from "./token-usage.ts";
import type { ReadWhole, WholeDocument } from "./whole-answer.ts";

type Json = Readonly<Record<string, unknown>>;

export interface NativeEvent {
  /**
   * `last`: it has the end of the answer, and is passed on after the charge. `done`: nothing follows. `end`: both.
   * `failed`: the worker reports an error. Undefined for all other events.
   */
  readonly step?: "last" | "done" | "end" | "failed";
  readonly usage?: TokenUsage | undefined;
  /** The finish reason in terms of chat completions. */
  readonly finishReason?: string | undefined;
}

export type ReadEvent = (event: Json) => NativeEvent;

/** The members of answers and events that have text of the model, and those that have such members. */
const written = new Set("text refusal thinking partial_json arguments input name delta".split(" "));
const parents = new Set("item part content summary content_block delta".split(" "));

/** Returns the number of UTF-8 bytes of texts, and of the names and arguments of tool calls. */
export function countWritten(value: unknown): number {
  if (Array.isArray(value)) return value.reduce<number>((sum, one) => sum + countWritten(one), 0);
  if (!isObject(value)) return 0;
  let bytes = 0;
  for (const [name, member] of Object.entries(value)) {
    if (typeof member === "string") bytes += written.has(name) ? Buffer.byteLength(member) : 0;
    else if (parents.has(name)) bytes += countWritten(member);
    else if (name === "input" && isObject(member) && Object.keys(member).length > 0) {
      bytes += Buffer.byteLength(JSON.stringify(member));
    }
  }
  return bytes;
}

export function isReasoning({ type, delta }: Json): boolean {
  const isThought = isObject(delta) && delta["type"] === "thinking_delta";
  return isThought || (typeof type === "string" && type.startsWith("response.reasoning"));
}

function sizeOf(parts: unknown): Pick<WholeDocument, "writtenBytes" | "reasoningBytes"> {
  const thoughts = (Array.isArray(parts) ? (parts as unknown[]) : []).filter(
    (one) => isObject(one) && (one["type"] === "reasoning" || one["type"] === "thinking"),
  );
  return { writtenBytes: countWritten(parts), reasoningBytes: countWritten(thoughts) };
}

export const readWholeResponse: ReadWhole = (bytes) => {
  const response = readChoice(bytes);
  const end = endOfResponse(response);
  if (end === undefined) return undefined;
  return { ...end, ...sizeOf(response["output"]), native: bytes };
};

export const readWholeMessage: ReadWhole = (bytes) => {
  const { content, stop_reason: reason, usage } = readChoice(bytes);
  const finishReason = finishReasonOf(reason);
  if (finishReason === undefined || !isListOfObjects(content)) return undefined;
  const counts = readMessagesUsage(isObject(usage) ? usage : {});
  return { finishReason, usage: counts, ...sizeOf(content), native: bytes };
};

export const readTokenCount: ReadWhole = (bytes) => {
  const { input_tokens: count } = readChoice(bytes);
  const usage = readUsage({ prompt_tokens: count, completion_tokens: 0 });
  return usage && { finishReason: "stop", usage, writtenBytes: 0 };
};

/** Some servers send `response.completed` for an incomplete response, so its status decides. */
export function responseEvents(): ReadEvent {
  return ({ type, response }) => {
    if (type === "response.completed" || type === "response.incomplete") {
      const end = endOfResponse(response);
      return end === undefined ? { step: "failed" } : { step: "end", ...end };
    }
    const isFailed = type === "response.failed" || type === "response.cancelled";
    if (!isFailed && type !== "error") return {};
    return { step: "failed", usage: isObject(response) ? readResponseUsage(response) : undefined };
  };
}

/** The usage is in two events: `message_start` has the prompt, and `message_delta` the answer and maybe the prompt. */
export function messageEvents(): ReadEvent {
  let usage: Json = {};
  const add = (more: unknown): void => {
    const counts = Object.entries(isObject(more) ? more : {}).filter(([name, value]) => {
      return counted.includes(name) && typeof value === "number";
    });
    usage = { ...usage, ...Object.fromEntries(counts) };
  };
  return ({ type, message, delta, usage: more }) => {
    const begun = type === "message_start" && isObject(message) ? message["usage"] : undefined;
    // The tokens of the answer are not known yet.
    if (isObject(begun)) add({ ...begun, output_tokens: undefined });
    if (type === "message_stop") return { step: "done" };
    if (type === "error") return { step: "failed" };
    if (type !== "message_delta") return {};
    add(more);
    const finishReason = isObject(delta) ? finishReasonOf(delta["stop_reason"]) : undefined;
    return { step: "last", usage: readMessagesUsage(usage), finishReason };
  };
}

/** Returns undefined unless the response has ended as the model or a limit wanted. */
function endOfResponse(
  response: unknown,
): Pick<WholeDocument, "finishReason" | "usage"> | undefined {
  if (!isObject(response) || !isListOfObjects(response["output"])) return undefined;
  const { status, incomplete_details: details } = response;
  if (status !== "completed" && status !== "incomplete") return undefined;
  const isFiltered = isObject(details) && details["reason"] === "content_filter";
  const cut = isFiltered ? "content_filter" : "length";
  const finishReason = status === "completed" ? "stop" : cut;
  return { finishReason, usage: readResponseUsage(response) };
}

function readResponseUsage({ usage }: Json): TokenUsage | undefined {
  if (!isObject(usage)) return undefined;
  return readUsage({
    prompt_tokens: usage["input_tokens"],
    completion_tokens: usage["output_tokens"],
    prompt_tokens_details: usage["input_tokens_details"],
    completion_tokens_details: usage["output_tokens_details"],
  });
}

const counted: readonly string[] =
  "input_tokens cache_read_input_tokens cache_creation_input_tokens output_tokens".split(" ");

/** The three counts of a prompt exclude each other. */
function readMessagesUsage(usage: Json): TokenUsage | undefined {
  const [input, read = 0, created = 0, output] = counted.map((name) => usage[name] ?? undefined);
  if (!isCount(input) || !isCount(read) || !isCount(created)) return undefined;
  return readUsage({
    prompt_tokens: input + read + created,
    completion_tokens: output,
    prompt_tokens_details: { cached_tokens: usage["cache_read_input_tokens"] },
  });
}

const finishReasons: ReadonlyMap<string, string> = new Map([
  ["max_tokens", "length"],
  ["tool_use", "tool_calls"],
  ["refusal", "content_filter"],
]);

function finishReasonOf(stopReason: unknown): string | undefined {
  return typeof stopReason === "string" ? (finishReasons.get(stopReason) ?? "stop") : undefined;
}

function isListOfObjects(value: unknown): boolean {
  return Array.isArray(value) && value.every(isObject);
}
