/**
 * Reads a decrypted request with OpenAI's parameters and checks that it matches the unencrypted `hello`: the relay has
 * reserved credit for exactly the model and the number of tokens in `hello`.
 */
import type { ContextExceeded } from "sluice-gateway/services";
import { isAbsent, isObject } from "sluice-gateway/internal/toolkit";
import type { Hello } from "../protocol/hello.ts";
import { maxRequestBytes } from "../protocol/limits.ts";
import { isCount, readJsonObject, type JsonObject } from "../protocol/strict-json.ts";

export interface ChatRequest {
  /** The request for the upstream, as a stream with usage. */
  readonly body: Buffer;
  readonly maxTokens: number;
  /** UTF-8 bytes of everything that the model reads. Used if the upstream does not count tokens. */
  readonly promptBytes: number;
}

/** Only the client sees a refusal, because it is sent encrypted. */
export interface Refusal {
  readonly code: RefusalCode;
  readonly message: string;
  /** Set if the prompt is too long for the model. */
  readonly context?: ContextExceeded | undefined;
}

export type RefusalCode =
  | "INVALID_REQUEST"
  | "MODEL_NOT_AVAILABLE"
  | "LIMIT_EXCEEDED"
  | "UPSTREAM_FAILED"
  | "TIMEOUT";

/** `bytes`: the data of all frames of the request. */
export function readChatRequest(bytes: Uint8Array, hello: Hello): ChatRequest | Refusal {
  const parameters = readJsonObject(bytes, maxRequestBytes);
  if (parameters === undefined) return invalid("the request is not a JSON object");
  const { model, messages, n } = parameters;
  if (model !== hello.model) {
    return refusal("MODEL_NOT_AVAILABLE", "the model differs from the model in hello");
  }
  if (!Array.isArray(messages) || messages.length === 0) {
    return invalid("messages must be a non-empty list");
  }
  // Each choice would have its own token count.
  if (!isAbsent(n) && n !== 1) return invalid("n must be 1");
  const limits = [parameters["max_tokens"], parameters["max_completion_tokens"]].filter(
    (limit) => !isAbsent(limit),
  );
  const given = limits.filter((limit): limit is number => isCount(limit) && limit > 0);
  if (given.length < limits.length) {
    return invalid("max_tokens must be a whole number of at least 1");
  }
  const maxTokens = Math.min(...given, hello.maxOutputTokens);
  if (given.some((limit) => limit > hello.maxOutputTokens)) {
    return refusal("LIMIT_EXCEEDED", "max_tokens is above the max_output_tokens of hello");
  }
  return { body: bodyOf(parameters, maxTokens), maxTokens, promptBytes: bytesOf(parameters) };
}

function bodyOf(parameters: JsonObject, maxTokens: number): Buffer {
  const { max_completion_tokens: _limit, ...others } = parameters;
  const fixed = {
    max_tokens: maxTokens,
    stream: true,
    stream_options: { include_usage: true },
  };
  return Buffer.from(JSON.stringify({ ...others, ...fixed }));
}

/** Number of UTF-8 bytes that the model reads as text, or as JSON for everything about tools. */
function bytesOf({ messages, tools, response_format: format }: JsonObject): number {
  let bytes = jsonBytes(tools) + jsonBytes(format);
  for (const message of Array.isArray(messages) ? messages : []) {
    if (!isObject(message)) continue;
    const { content, reasoning_content: reasoning, tool_calls: calls } = message;
    const parts: readonly unknown[] = Array.isArray(content) ? content : [];
    const texts = parts.map((part) => (isObject(part) ? part["text"] : undefined));
    for (const text of [content, reasoning, ...texts]) {
      if (typeof text === "string") bytes += Buffer.byteLength(text);
    }
    bytes += jsonBytes(calls);
  }
  return bytes;
}

function jsonBytes(value: unknown): number {
  return isAbsent(value) ? 0 : Buffer.byteLength(JSON.stringify(value));
}

function invalid(message: string): Refusal {
  return refusal("INVALID_REQUEST", message);
}

function refusal(code: RefusalCode, message: string): Refusal {
  return { code, message };
}
