/**
 * A decrypted request as the enclave takes it: OpenAI's parameters, held to what `hello` said in the clear. The relay
 * has reserved for that model and that many tokens, and for nothing else.
 */
import type { Hello } from "../protocol/hello.ts";
import { maxRequestBytes } from "../protocol/limits.ts";
import { isCount, isJsonObject, readJsonObject } from "../protocol/strict-json.ts";
import type { JsonObject } from "../protocol/strict-json.ts";

/** For the upstream: streamed, with usage. */
export interface ChatRequest {
  readonly body: Buffer;
  readonly maxTokens: number;
  /** UTF-8 bytes of the text of all messages, for when the upstream does not count. */
  readonly promptBytes: number;
}

/** Told to the client inside the encryption, and to nobody else. `code` for programs. */
export interface Refusal {
  readonly code: RefusalCode;
  readonly message: string;
}

export type RefusalCode =
  | "INVALID_REQUEST"
  | "MODEL_NOT_AVAILABLE"
  | "LIMIT_EXCEEDED"
  | "UPSTREAM_FAILED"
  | "TIMEOUT";

/** `bytes`: the data of all its frames. */
export function readChatRequest(bytes: Uint8Array, hello: Hello): ChatRequest | Refusal {
  const asked = readJsonObject(bytes, maxRequestBytes);
  if (asked === undefined) return invalid("the request is not one JSON object");
  const { model, messages, n } = asked;
  if (model !== hello.model) {
    return refusal("MODEL_NOT_AVAILABLE", "the model is not the one that hello named");
  }
  if (!Array.isArray(messages) || messages.length === 0) {
    return invalid("messages must be a list that is not empty");
  }
  // Each choice would have its own count of tokens.
  if (!isAbsent(n) && n !== 1) return invalid("n must be 1");
  const limits = [asked["max_tokens"], asked["max_completion_tokens"]].filter(
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
  return { body: bodyOf(asked, maxTokens), maxTokens, promptBytes: bytesOf(messages) };
}

/** Any parameter that is not ours to decide goes to the model as it is. */
function bodyOf(asked: JsonObject, maxTokens: number): Buffer {
  const { max_completion_tokens: _limit, ...parameters } = asked;
  const decided = {
    max_tokens: maxTokens,
    stream: true,
    stream_options: { include_usage: true },
  };
  return Buffer.from(JSON.stringify({ ...parameters, ...decided }));
}

function bytesOf(messages: readonly unknown[]): number {
  let bytes = 0;
  for (const message of messages) {
    const content = isJsonObject(message) ? message["content"] : undefined;
    if (typeof content === "string") bytes += Buffer.byteLength(content);
    else if (Array.isArray(content)) {
      for (const part of content) {
        const text: unknown = isJsonObject(part) ? part["text"] : undefined;
        if (typeof text === "string") bytes += Buffer.byteLength(text);
      }
    }
  }
  return bytes;
}

/** Clients send `null` for what they leave out. */
function isAbsent(value: unknown): value is null | undefined {
  return value === undefined || value === null;
}

function invalid(message: string): Refusal {
  return refusal("INVALID_REQUEST", message);
}

function refusal(code: RefusalCode, message: string): Refusal {
  return { code, message };
}
