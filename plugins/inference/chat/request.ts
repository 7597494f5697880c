/**
 * Reads a chat completions request (gateway.md, "POST /v1/chat/completions") and writes the request for the worker.
 * Ignored and unknown fields are omitted.
 */
/** A parsed request. */
import { isObject } from "sluice-gateway/toolkit";
export interface ChatRequest {
  readonly model: string;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly maxTokens: number | undefined;
  /** The request for the worker: JSON in UTF-8. */
  readonly body: Buffer;
  /** Number of UTF-8 bytes in the text of all messages. */
  readonly promptBytes: number;
  /** Upper bound for the tokens of the prompt: one per byte that a chat template reads, plus a constant per message. */
  readonly maxPromptTokens: number;
  /** Names of known fields in the request that are not forwarded to workers. */
  readonly ignored: readonly string[];
}

export type ChatRequestResult =
  | { readonly ok: true; readonly request: ChatRequest }
  /** `message`: the reason, for the client. */
  | { readonly ok: false; readonly message: string };

type Json = Readonly<Record<string, unknown>>;

interface Message {
  readonly role: string;
  readonly content: string | readonly { readonly type: "text"; readonly text: string }[] | null;
  readonly name?: string;
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

/** Fields of chat completions that clients send and that are omitted: first those of gateway.md, then newer ones. */
export const ignoredFields = [
  "temperature",
  "top_p",
  "n",
  "stop",
  "presence_penalty",
  "frequency_penalty",
  "seed",
  "user",
  "tools",
  "tool_choice",
  "response_format",
  "logprobs",
  "logit_bias",
  "top_logprobs",
  "parallel_tool_calls",
  "functions",
  "function_call",
  "reasoning_effort",
  "modalities",
  "audio",
  "prediction",
  "top_k",
  "min_p",
  "repetition_penalty",
] as const;

/** Members of messages that clients send and that are omitted. */
const ignoredMembers = [
  "tool_calls",
  "tool_call_id",
  "function_call",
  "refusal",
  "audio",
  "reasoning",
  "reasoning_content",
] as const;

/** Types of content parts that are omitted. Any other type is shown as `other`. */
const ignoredParts = ["image_url", "input_audio", "video_url", "file", "refusal", "other"] as const;

/** The names by which the omitted parts of messages are shown to the client. */
export const ignoredInMessages = [
  ...ignoredMembers.map((name) => `messages.${name}`),
  ...ignoredParts.map((type) => `messages.content.${type}`),
];

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

/** Reads a request. `body`: the parsed body, after `withoutExtraBody`. */
export function readChatRequest(body: unknown): ChatRequestResult {
  if (!isObject(body)) return wrong("the body must be a JSON object");
  if (!isAbsent(body["extra_body"])) return wrong("extra_body must be an object");
  const { model, stream } = body;
  if (typeof model !== "string" || model === "") return wrong("model must be the id of a model");
  if (!isAbsent(stream) && typeof stream !== "boolean") return wrong("stream must be a boolean");
  const dropped = new Set<string>();
  const messages = readMessages(body["messages"], dropped);
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
  const kwargs = templateVariables(template);
  const streamed = stream === true;
  const { textBytes, roleBytes } = measure(messages);
  const forWorker = {
    model,
    messages,
    ...(maxTokens !== undefined && { max_tokens: maxTokens }),
    stream: streamed,
    // The worker always reports its usage, because only that gives the exact cost of an answer.
    ...(streamed && { stream_options: { include_usage: true } }),
    chat_template_kwargs: kwargs,
  };
  return {
    ok: true,
    request: {
      model,
      stream: streamed,
      includeUsage,
      maxTokens,
      body: unpooledBytes(JSON.stringify(forWorker)),
      promptBytes: textBytes,
      maxPromptTokens:
        textBytes +
        roleBytes +
        Buffer.byteLength(JSON.stringify(kwargs)) +
        tokensPerMessage * messages.length,
      ignored: [...ignoredOf(body), ...dropped],
    },
  };
}

/** Returns the client's variables for the chat template, without those that would change how the prompt is built. */
function templateVariables(template: Json | null | undefined): Json {
  const variables: Record<string, unknown> = { enable_thinking: false, ...template };
  for (const name of promptParameters) delete variables[name];
  return variables;
}

function ignoredOf(body: Json): readonly string[] {
  return ignoredFields.filter((name) => Object.hasOwn(body, name) && !isAbsent(body[name]));
}

/**
 * Returns the messages, or a text with the reason why they are invalid. Adds the names of omitted parts to `dropped`.
 */
function readMessages(value: unknown, dropped: Set<string>): readonly Message[] | string {
  if (!Array.isArray(value) || value.length === 0)
    return "messages must be a list that is not empty";
  const messages: Message[] = [];
  for (const [index, one] of value.entries()) {
    const message = readMessage(one, dropped);
    if (typeof message === "string") return `messages[${index}]${message}`;
    messages.push(message);
  }
  return messages;
}

function readMessage(value: unknown, dropped: Set<string>): Message | string {
  if (!isObject(value)) return " must be an object";
  const { role, content, name } = value;
  if (typeof role !== "string" || role === "") return ".role must be a non-empty string";
  if (!isAbsent(name) && typeof name !== "string") return ".name must be a string";
  const read = readContent(content, dropped);
  if (read === undefined) return ".content must be a string or a list of parts";
  if (read === "noText") return ".content has no text, and only text is forwarded to the model";
  for (const member of ignoredMembers) {
    if (Object.hasOwn(value, member) && !isAbsent(value[member])) dropped.add(`messages.${member}`);
  }
  return { role, content: read.content, ...(typeof name === "string" && { name }) };
}

/**
 * Reads the content of a message. Only the parts of type `text` of a list are forwarded. `noText`: all parts have other
 * types, so the model would answer, and the client pay for, an empty message.
 */
function readContent(
  value: unknown,
  dropped: Set<string>,
): Pick<Message, "content"> | "noText" | undefined {
  if (isAbsent(value)) return { content: null };
  if (typeof value === "string") return { content: value };
  if (!Array.isArray(value)) return undefined;
  const parts: { readonly type: "text"; readonly text: string }[] = [];
  for (const part of value) {
    if (!isObject(part) || typeof part["type"] !== "string") return undefined;
    const { type, text } = part;
    if (type !== "text") {
      const shown = ignoredParts.find((known) => known === type) ?? "other";
      dropped.add(`messages.content.${shown}`);
      continue;
    }
    if (typeof text !== "string") return undefined;
    parts.push({ type, text });
  }
  return value.length > 0 && parts.length === 0 ? "noText" : { content: parts };
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

/** Returns the number of UTF-8 bytes of names and contents, and of the roles. */
function measure(messages: readonly Message[]): { textBytes: number; roleBytes: number } {
  let textBytes = 0;
  let roleBytes = 0;
  const add = (text: string): void => {
    textBytes += Buffer.byteLength(text);
  };
  for (const { role, content, name } of messages) {
    roleBytes += Buffer.byteLength(role);
    if (name !== undefined) add(name);
    if (typeof content === "string") add(content);
    else if (content !== null) for (const { text } of content) add(text);
  }
  return { textBytes, roleBytes };
}

function isNestedWithin(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return true;
  return levels > 0 && Object.values(value).every((each) => isNestedWithin(each, levels - 1));
}

function wrong(message: string): ChatRequestResult {
  return { ok: false, message };
}

/** Returns true if a member is missing or null. Clients send null for members that they do not set. */
function isAbsent(value: unknown): value is null | undefined {
  return value === undefined || value === null;
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
