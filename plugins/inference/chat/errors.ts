/** Errors of the chat surface, in the format that chat clients read (decisions.md section 8). */
import type { Exchange, Reply } from "sluice-gateway/plugin";
import type { AttemptFailure, ContextExceeded, InferenceFailure } from "sluice-gateway/services";

const invalid = "invalid_request_error";
const internal = "internal_error";
/** Time in seconds: the minimum of gateway.md, "Retry-After values". */
const retryAfter = 5;

const errors = {
  INVALID_REQUEST: { status: 400, type: invalid, message: "the request is not valid" },
  MODEL_NOT_FOUND: { status: 404, type: invalid, message: "there is no such model" },
  MODEL_NOT_AVAILABLE: {
    status: 503,
    type: internal,
    message: "the model is not available at the moment",
  },
  UPSTREAM_ERROR: { status: 503, type: internal, message: "the model could not answer" },
} as const;

export type ChatErrorCode = keyof typeof errors;

/** Maps the failure of an answer to the code for the client. No text from a worker is passed on. */
export const codeOfFailure: Readonly<Record<InferenceFailure, ChatErrorCode>> = {
  rejected: "INVALID_REQUEST",
  notServed: "MODEL_NOT_AVAILABLE",
  unavailable: "UPSTREAM_ERROR",
  broken: "UPSTREAM_ERROR",
  timedOut: "UPSTREAM_ERROR",
};

interface ErrorOptions {
  /** Replaces the general message of the code. */
  readonly message?: string;
  readonly outcome?: Reply["outcome"];
  /** Replaces the general wait of a 503. */
  readonly retryAfterSeconds?: number | undefined;
}

export function chatError(
  code: ChatErrorCode,
  { message, outcome, retryAfterSeconds }: ErrorOptions = {},
): Reply {
  const { status } = errors[code];
  const headers = ["content-type", "application/json"];
  if (status === 503) headers.push("retry-after", String(retryAfterSeconds ?? retryAfter));
  return {
    status,
    headers,
    body: errorJson(code, message),
    code,
    ...(outcome !== undefined && { outcome }),
  };
}

/** Returns `{"error":{…}}`, for a reply and for the last event of a stream that broke. */
export function errorJson(code: ChatErrorCode, message: string = errors[code].message): string {
  return JSON.stringify({ error: { message, type: errors[code].type, code } });
}

/** Returns the outcome of an exchange whose answer failed. */
export function failureOutcome(failure: InferenceFailure): "timedOut" | "upstreamFailed" {
  return failure === "timedOut" ? "timedOut" : "upstreamFailed";
}

/**
 * Returns the reply for an answer that failed before it began, and records the cause for operators. `attempt`: the
 * failure of the last worker.
 */
export function failureReply(
  x: Pick<Exchange, "note">,
  failure: InferenceFailure,
  attempt: AttemptFailure | undefined,
): Reply {
  x.note("upstreamFailure", attempt?.cause);
  const code = codeOfFailure[failure];
  const { contextExceeded, retryAfterSeconds } = attempt ?? {};
  if (code !== "INVALID_REQUEST") {
    return chatError(code, { outcome: failureOutcome(failure), retryAfterSeconds });
  }
  return contextExceeded === undefined ? chatError(code) : contextError(contextExceeded);
}

/** The error that OpenAI sends for a prompt that is too long. Clients read its code, and some of them its wording. */
function contextError({ limit, requested }: ContextExceeded): Reply {
  const wanted = requested === undefined ? "is longer" : `needs ${requested} tokens`;
  const message =
    limit === undefined
      ? "the request is longer than the context of the model"
      : `this model's maximum context length is ${limit} tokens, and the request ${wanted}`;
  const error = {
    message,
    type: invalid,
    param: "messages",
    code: "context_length_exceeded",
    max_context_tokens: limit,
    requested_tokens: requested,
  };
  return { ...chatError("INVALID_REQUEST"), body: JSON.stringify({ error }) };
}
