/**
 * Reads a chat completions request (gateway.md, "POST /v1/chat/completions") and writes the request for the worker.
 * Fields and members that the network does not pass on, and unknown ones, are omitted.
 */
import type { InferenceRequest, Passable, PromptOptions } from "sluice-gateway/services";
import { isAbsent, isObject } from "sluice-gateway/toolkit";
import type { SessionHints } from "../session-key.ts";
import { InvalidMessage, MessageReader, type Message } from "./messages.ts";
import { problemOfPassed, splitFields } from "./passed-fields.ts";

/** A parsed request of any API. */
export interface CompletionRequest extends Pick<InferenceRequest, "api" | "maxAnswerBytes"> {
  readonly model: string;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly maxTokens: number | undefined;
  /** The parts of the request that the worker gets in addition to texts. */
  readonly passes: readonly Passable[];
  /** The request for the worker: JSON in UTF-8. */
  readonly body: Buffer;
  /** Number of UTF-8 bytes of everything that the model reads, except images. */
  readonly promptBytes: number;
  /** Maximum number of tokens of all images. */
  readonly imageTokens: number;
  /** Upper bound for the tokens of the prompt: one per byte that a chat template reads, plus a constant per message. */
  readonly maxPromptTokens: number;
  /** Names of known fields and members in the request that are not forwarded to workers. */
  readonly ignored: readonly string[];
}

export type ChatRequestResult =
  | { readonly ok: true; readonly request: CompletionRequest; readonly session: SessionHints }
  /** `message`: the reason, for the client. */
  | { readonly ok: false; readonly message: string };

type Json = Readonly<Record<string, unknown>>;

/**
 * Members of chat_template_kwargs that are not variables of a template but parameters of the server that build the
 * prompt. A template from the client could keep a worker busy (CVE-2025-61620) and turn one byte into many tokens.
 */
const promptParameters = [
  "chat_template",
  "tokenize",
  "add_generation_prompt",
  "continue_final_message",
  "return_dict",
] as const;

/** gateway.md, "POST /v1/chat/completions": the behaviour without `passes`. */
const textsOnly: PromptOptions = { passes: [], imageTokens: 0, contextTokens: undefined };
/** For a model that no network lists. The request is read completely and then answered with 404. */
export const allPassed: PromptOptions = {
  passes: ["tools", "sampling", "format", "logprobs", "images", "reasoning"],
  imageTokens: 0,
  contextTokens: undefined,
};
/** Tokens per message that a chat template adds: a role and some marks. */
const tokensPerMessage = 32;
/** Maximum of `max_tokens`. No model produces more in one answer. */
export const maxTokenLimit = 10_000_000;
/** Maximum nesting of chat_template_kwargs. Forwarded values are serialized again, which uses the stack. */
export const maxTemplateLevels = 64;

/**
 * Returns the body with the members of `extra_body` as its own. If a member is in both places, the one of the body is
 * used. Returns `value` itself if it has no such object.
 */
export function withoutExtraBody(value: unknown): unknown {
  if (!isObject(value) || !isObject(value["extra_body"])) return value;
  const { extra_body: _, ...body } = { ...value["extra_body"], ...value };
  return body;
}

/**
 * Reads a request. `body`: the parsed body, after `withoutExtraBody`. `promptOptionsOf` returns the options of the
 * network that serves a model; undefined if no network lists it.
 */
export function readChatRequest(
  body: unknown,
  promptOptionsOf: (model: string) => PromptOptions | undefined = () => undefined,
): ChatRequestResult {
  if (!isObject(body)) return wrong("the body must be a JSON object");
  if (!isAbsent(body["extra_body"])) return wrong("extra_body must be an object");
  const { model, stream } = body;
  if (typeof model !== "string" || model === "") return wrong("model must be the id of a model");
  if (!isAbsent(stream) && typeof stream !== "boolean") return wrong("stream must be a boolean");
  const options = promptOptionsOf(model) ?? textsOnly;
  const reader = new MessageReader(options.passes);
  const messages = readMessages(body["messages"], reader);
  if (typeof messages === "string") return wrong(messages);
  const maxTokens = readMaxTokens(body);
  if (typeof maxTokens === "string") return wrong(maxTokens);
  const includeUsage = readIncludeUsage(body["stream_options"]);
  if (typeof includeUsage === "string") return wrong(includeUsage);
  const template = body["chat_template_kwargs"];
  if (!isAbsent(template) && !isObject(template)) {
    return wrong("chat_template_kwargs must be an object");
  }
  if (!isNestedWithin(template, maxTemplateLevels)) {
    return wrong(`chat_template_kwargs must not be nested deeper than ${maxTemplateLevels} levels`);
  }
  const { passed, ignored } = splitFields(body, options.passes);
  const problem = problemOfPassed(passed);
  if (problem !== undefined) return wrong(problem);
  const kwargs = templateVariables(template);
  const streamed = stream === true;
  const forWorker = {
    model,
    messages,
    ...(maxTokens !== undefined && { max_tokens: maxTokens }),
    stream: streamed,
    // The worker always reports its usage, because only that gives the exact cost of an answer.
    ...(streamed && { stream_options: { include_usage: true } }),
    chat_template_kwargs: kwargs,
    ...passed,
  };
  const { textBytes, roleBytes, images } = reader.size;
  // Models read the schemas of tools and of the format. Other fields are only a few bytes.
  const promptBytes = textBytes + (isEmpty(passed) ? 0 : jsonBytes(passed));
  const imageTokens = images * options.imageTokens;
  const maxPromptTokens =
    promptBytes + roleBytes + jsonBytes(kwargs) + tokensPerMessage * messages.length + imageTokens;
  return {
    ok: true,
    session: { name: body["prompt_cache_key"], messages },
    request: {
      model,
      stream: streamed,
      includeUsage,
      maxTokens,
      passes: options.passes,
      body: unpooledBytes(JSON.stringify(forWorker)),
      promptBytes,
      imageTokens,
      maxPromptTokens: Math.min(maxPromptTokens, options.contextTokens ?? Infinity),
      ignored: [...ignored, ...reader.ignored],
    },
  };
}

/** Returns the messages, or a text with the reason why they are invalid. */
function readMessages(value: unknown, reader: MessageReader): readonly Message[] | string {
  try {
    return reader.read(value);
  } catch (error) {
    if (error instanceof InvalidMessage) return error.message;
    throw error;
  }
}

function isEmpty(fields: Json): boolean {
  return Object.keys(fields).length === 0;
}

function jsonBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}

/** Returns the client's variables for the chat template, without those that would change how the prompt is built. */
function templateVariables(template: Json | null | undefined): Json {
  const variables: Record<string, unknown> = { enable_thinking: false, ...template };
  for (const name of promptParameters) delete variables[name];
  return variables;
}

/** Reads the token limit. The first of the two names is used, but the second must also be valid. */
function readMaxTokens(body: Json): number | undefined | string {
  let wanted: number | undefined;
  for (const name of ["max_tokens", "max_completion_tokens"]) {
    const value = body[name];
    if (isAbsent(value)) continue;
    if (!isTokenCount(value)) return `${name} must be an integer from 1 to ${maxTokenLimit}`;
    wanted ??= value;
  }
  return wanted;
}

function isTokenCount(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) > 0 && Number(value) <= maxTokenLimit;
}

function readIncludeUsage(options: unknown): boolean | string {
  if (isAbsent(options)) return false;
  if (!isObject(options)) return "stream_options must be an object";
  const { include_usage: wanted } = options;
  if (isAbsent(wanted)) return false;
  return typeof wanted === "boolean" ? wanted : "stream_options.include_usage must be a boolean";
}

function isNestedWithin(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return true;
  return levels > 0 && Object.values(value).every((each) => isNestedWithin(each, levels - 1));
}

function wrong(message: string): ChatRequestResult {
  return { ok: false, message };
}

/**
 * Returns the text in UTF-8, in memory that is not pooled. `Buffer.from` would return a slice of a 64 KiB pool that it
 * shares with short-lived chunks. Each stream would keep one such pool from being freed, which is more than the rest of
 * the stream needs.
 */
export function unpooledBytes(text: string): Buffer {
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text));
  bytes.write(text);
  return bytes;
}
