/**
 * Reads a chat completions request (gateway.md, "POST /v1/chat/completions") and writes the request for the worker.
 * Fields and members that the network does not pass on, and unknown ones, are omitted.
 */
import type { InferenceRequest, Passable, PromptOptions } from "sluice-gateway/services";
import { isAbsent, isObject } from "sluice-gateway/internal/toolkit";
import type { SessionHints } from "../session-key.ts";
import * as check from "./check.ts";
import type { Json } from "./check.ts";
import { IgnoredNames } from "./ignored-fields.ts";
import { MessageReader } from "./messages.ts";
import { passedFields } from "./passed-fields.ts";

/** A request of any API. */
export interface CompletionRequest extends Pick<InferenceRequest, "api" | "maxAnswerBytes"> {
  readonly model: string;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly maxTokens: number | undefined;
  readonly passes: readonly Passable[];
  /** JSON in UTF-8. */
  readonly body: Buffer;
  /** Number of UTF-8 bytes of everything that the model reads, except images. */
  readonly promptBytes: number;
  readonly imageTokens: number;
  /** Upper bound for the tokens of the prompt: one per byte that a chat template reads, plus a constant per message. */
  readonly maxPromptTokens: number;
  /** Members of the request that are not forwarded. */
  readonly ignored: readonly string[];
}

export interface ReadRequest {
  readonly request: CompletionRequest;
  readonly session: SessionHints;
}

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
/** Options for a model that no network lists. The request is read completely and then answered with 404. */
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

/** If a member is in both places, the one of the body is used. */
export function withoutExtraBody(value: unknown): unknown {
  if (!isObject(value) || !isObject(value["extra_body"])) return value;
  const { extra_body: _, ...body } = { ...value["extra_body"], ...value };
  return body;
}

/** `body` has gone through `withoutExtraBody`. Throws `InvalidRequest`. */
export function readChatRequest(body: Json, options: PromptOptions = textsOnly): ReadRequest {
  if (!isAbsent(body["extra_body"])) check.fail("extra_body", "expected an object");
  const ignored = new IgnoredNames();
  const model = check.name(body["model"], "model");
  const stream = check.optional(body["stream"], "stream", check.boolean) ?? false;
  const maxTokens = readMaxTokens(body);
  const includeUsage = readIncludeUsage(body["stream_options"], ignored);
  const kwargs = templateVariables(body["chat_template_kwargs"], ignored);
  const passed = passedFields(body, options.passes, ignored);
  const reader = new MessageReader(options.passes, ignored);
  const messages = reader.read(body["messages"]);
  const forWorker = {
    model,
    messages,
    ...(maxTokens !== undefined && { max_tokens: maxTokens }),
    stream,
    // The worker always reports its usage, because only that gives the exact cost of an answer.
    ...(stream && { stream_options: { include_usage: true } }),
    chat_template_kwargs: kwargs,
    ...passed,
  };
  const { textBytes, roleBytes, images } = reader.size;
  // Models read the schemas of tools and of the format. Other fields are only a few bytes.
  const promptBytes = textBytes + (Object.keys(passed).length === 0 ? 0 : jsonBytes(passed));
  const imageTokens = images * options.imageTokens;
  const maxPromptTokens =
    promptBytes + roleBytes + jsonBytes(kwargs) + tokensPerMessage * messages.length + imageTokens;
  return {
    session: { name: body["prompt_cache_key"], messages },
    request: {
      model,
      stream,
      includeUsage,
      maxTokens,
      passes: options.passes,
      body: unpooledBytes(JSON.stringify(forWorker)),
      promptBytes,
      imageTokens,
      maxPromptTokens: Math.min(maxPromptTokens, options.contextTokens ?? Infinity),
      ignored: ignored.names,
    },
  };
}

function jsonBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}

/** Leaves out variables that would change how the prompt is built. */
function templateVariables(value: unknown, ignored: IgnoredNames): Json {
  const path = "chat_template_kwargs";
  const template = check.object(value ?? {}, path);
  if (!isNestedWithin(template, maxTemplateLevels)) {
    check.fail(path, `must not be nested deeper than ${maxTemplateLevels} levels`);
  }
  const variables: Record<string, unknown> = { enable_thinking: false, ...template };
  for (const name of promptParameters) {
    if (Object.hasOwn(template, name)) ignored.addChosen(`${path}.${name}`);
    delete variables[name];
  }
  return variables;
}

/** The first of the two names is used, but the second must also be valid. */
function readMaxTokens(body: Json): number | undefined {
  const [first, second] = ["max_tokens", "max_completion_tokens"].map((name) =>
    check.optional(body[name], name, check.integer(1, maxTokenLimit)),
  );
  return first ?? second;
}

function readIncludeUsage(value: unknown, ignored: IgnoredNames): boolean {
  const options = check.object(value ?? {}, "stream_options");
  ignored.addOthers(options, ["include_usage"], "stream_options.");
  const path = "stream_options.include_usage";
  return check.optional(options["include_usage"], path, check.boolean) ?? false;
}

function isNestedWithin(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return true;
  return levels > 0 && Object.values(value).every((each) => isNestedWithin(each, levels - 1));
}

/**
 * Returns UTF-8 in memory that is not pooled. `Buffer.from` would return a slice of a 64 KiB pool that it shares with
 * short-lived chunks. Each stream would keep one such pool, which is more than the rest of the stream needs.
 */
export function unpooledBytes(text: string): Buffer {
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text));
  bytes.write(text);
  return bytes;
}
