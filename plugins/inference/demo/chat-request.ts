/**
 * Reads the body of a chat completion as far as the demo model heeds it; a fault is one that a model server would
 * answer.
 */

export interface ChatMessage {
  readonly role: string;
  /** The text parts of the content, one after the other. */
  readonly text: string;
}

export interface ChatRequest {
  /** At least one. */
  readonly messages: readonly ChatMessage[];
  readonly stream: boolean;
  /** `stream_options.include_usage`. */
  readonly includeUsage: boolean;
  /** `chat_template_kwargs.enable_thinking`. */
  readonly thinking: boolean;
  /** The smaller of `max_tokens` and `max_completion_tokens`; undefined: neither was given. */
  readonly maxTokens: number | undefined;
}

/** The `error` member of an answer, as OpenAI shapes it, and its HTTP status. */
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

/** `model` is the one model that this server has. */
export function readChatRequest(body: string, model: string): ChatRequest | ChatFault {
  const asked = parse(body);
  if (asked === undefined) return fault(null, "The body is not a JSON object.");
  if (typeof asked["model"] !== "string") return fault("model", "model must be a string.");
  if (asked["model"] !== model) return unknownModel;
  const messages = readMessages(asked["messages"]);
  if (messages === undefined) {
    return fault("messages", "messages must be a list of at least one role with text content.");
  }
  const given = [asked["max_completion_tokens"], asked["max_tokens"]].filter(
    (limit) => limit !== undefined && limit !== null,
  );
  const counts = given.filter((limit) => isCount(limit));
  if (counts.length < given.length) {
    return fault("max_tokens", "max_tokens must be an integer of at least 1.");
  }
  return {
    messages,
    stream: asked["stream"] === true,
    includeUsage: membersOf(asked["stream_options"])?.["include_usage"] === true,
    thinking: membersOf(asked["chat_template_kwargs"])?.["enable_thinking"] === true,
    maxTokens: counts.length === 0 ? undefined : Math.min(...counts),
  };
}

/** A `ChatFault` about the member `param`. */
export function fault(param: string | null, message: string, status = 400): ChatFault {
  return { status, error: { message, type: "invalid_request_error", param, code: null } };
}

const unknownModel: ChatFault = {
  status: 404,
  error: {
    message: "This server has no model of that name.",
    type: "invalid_request_error",
    param: "model",
    code: "model_not_found",
  },
};

function parse(body: string): Members | undefined {
  try {
    return membersOf(JSON.parse(body));
  } catch {
    return undefined;
  }
}

function readMessages(value: unknown): readonly ChatMessage[] | undefined {
  if (!Array.isArray(value) || value.length === 0) return undefined;
  const messages: ChatMessage[] = [];
  for (const each of value) {
    const message = membersOf(each);
    const role = message?.["role"];
    const text = textOf(message?.["content"]);
    if (typeof role !== "string" || text === undefined) return undefined;
    messages.push({ role, text });
  }
  return messages;
}

/** Undefined when the content is neither text nor a list of text parts. */
function textOf(content: unknown): string | undefined {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return undefined;
  const texts = content.map((part) => {
    const members = membersOf(part);
    return members?.["type"] === "text" ? members["text"] : undefined;
  });
  return texts.every((text) => typeof text === "string") ? texts.join("") : undefined;
}

function membersOf(value: unknown): Members | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  // A JSON value that is an object and no array has members by name.
  return value as Members;
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 1;
}
