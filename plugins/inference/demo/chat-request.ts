/**
 * Reads the members of a chat completion request that the demo model supports. Errors are those of a real model server.
 */
import { isObject } from "sluice-gateway/internal/toolkit";
import { readObject } from "../read-json.ts";
import { fileTask, type ToolCall } from "./file-task.ts";

export interface ChatMessage {
  readonly role: string;
  readonly text: string;
}

export interface ChatRequest {
  readonly messages: readonly ChatMessage[];
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly thinking: boolean;
  /** The smaller of `max_tokens` and `max_completion_tokens`. Undefined if neither was given. */
  readonly maxTokens: number | undefined;
  readonly toolCall?: ToolCall;
}

export interface ChatFault {
  readonly status: number;
  readonly error: {
    readonly message: string;
    readonly type: "invalid_request_error";
    readonly param: string | null;
    readonly code: string | null;
  };
}

type Members = Readonly<Record<string, unknown>>;

export function readChatRequest(body: string, model: string): ChatRequest | ChatFault {
  const members = readObject(body);
  if (members === undefined) return fault(null, "The body is not a JSON object.");
  if (typeof members["model"] !== "string") return fault("model", "model must be a string.");
  if (members["model"] !== model) return unknownModel;
  const messages = readMessages(members["messages"]);
  if (messages === undefined) {
    return fault("messages", "messages must be a list of at least one role with text content.");
  }
  const given = [members["max_completion_tokens"], members["max_tokens"]].filter(
    (limit) => limit !== undefined && limit !== null,
  );
  const counts = given.filter((limit) => isCount(limit));
  if (counts.length < given.length) {
    return fault("max_tokens", "max_tokens must be an integer of at least 1.");
  }
  const toolCall = fileTask(promptOf(members["messages"]), members["tools"]);
  return {
    messages,
    stream: members["stream"] === true,
    includeUsage: membersOf(members["stream_options"])?.["include_usage"] === true,
    thinking: membersOf(members["chat_template_kwargs"])?.["enable_thinking"] === true,
    maxTokens: counts.length === 0 ? undefined : Math.min(...counts),
    ...(toolCall !== undefined && { toolCall }),
  };
}

export function fault(param: string | null, message: string, status = 400): ChatFault {
  return { status, error: { message, type: "invalid_request_error", param, code: null } };
}

const unknownModel: ChatFault = {
  status: 404,
  error: {
    message: "This server does not have this model.",
    type: "invalid_request_error",
    param: "model",
    code: "model_not_found",
  },
};

function readMessages(value: unknown): readonly ChatMessage[] | undefined {
  if (!Array.isArray(value) || value.length === 0) return undefined;
  const messages: ChatMessage[] = [];
  for (const each of value) {
    const message = membersOf(each);
    const role = message?.["role"];
    const texts = textsOf(message?.["content"]);
    if (typeof role !== "string" || texts === undefined) return undefined;
    messages.push({ role, text: texts.join("") });
  }
  return messages;
}

/** The text parts of the last message, one per line, if it is the user's. */
function promptOf(messages: unknown): string {
  const last = Array.isArray(messages) ? membersOf(messages.at(-1)) : undefined;
  return last?.["role"] === "user" ? (textsOf(last["content"])?.join("\n") ?? "") : "";
}

/** Undefined if the content is neither missing nor text nor a list of text parts. */
function textsOf(content: unknown): readonly string[] | undefined {
  if (content === null || content === undefined) return [];
  if (typeof content === "string") return [content];
  if (!Array.isArray(content)) return undefined;
  const texts = content.map((part) => {
    const { type, text } = membersOf(part) ?? {};
    return type === "text" && typeof text === "string" ? text : undefined;
  });
  return texts.every((text) => text !== undefined) ? texts : undefined;
}

function membersOf(value: unknown): Members | undefined {
  return isObject(value) ? value : undefined;
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 1;
}
