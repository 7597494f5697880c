/** Errors of completions. Each API renders them in its own shape (decisions.md sections 8 and 15). */
import type { Exchange, Reply } from "sluice-gateway/plugin";
import type { AttemptFailure, ContextExceeded, InferenceFailure } from "sluice-gateway/services";
import type { CompletionApi, CompletionError } from "./api.ts";

/** Time in seconds: the minimum of gateway.md, "Retry-After values". */
const retryAfter = 5;

const errors = {
  INVALID_REQUEST: { status: 400, message: "the request is not valid" },
  MODEL_NOT_FOUND: { status: 404, message: "there is no such model" },
  MODEL_NOT_AVAILABLE: { status: 503, message: "the model is not available at the moment" },
  UPSTREAM_ERROR: { status: 503, message: "the model could not answer" },
} as const;

export type CompletionErrorCode = keyof typeof errors;

/** Maps the failure of an answer to the code for the client. No text from a worker is passed on. */
export const codeOfFailure: Readonly<Record<InferenceFailure, CompletionErrorCode>> = {
  rejected: "INVALID_REQUEST",
  notServed: "MODEL_NOT_AVAILABLE",
  unavailable: "UPSTREAM_ERROR",
  broken: "UPSTREAM_ERROR",
  timedOut: "UPSTREAM_ERROR",
};

/** What an error says in addition to its code. `message` replaces the general one. */
type Details = Partial<Pick<CompletionError, "message" | "param" | "apiCode" | "contextExceeded">>;

export function completionError(code: CompletionErrorCode, details: Details = {}): CompletionError {
  return { code, ...errors[code], ...details };
}

/** Renders an error. `retryAfterSeconds` replaces the general wait of a 503. */
export function errorReply(
  api: CompletionApi,
  x: Exchange,
  error: CompletionError,
  { retryAfterSeconds = retryAfter }: { readonly retryAfterSeconds?: number | undefined } = {},
): Reply {
  const { headers: own = [], body } = api.renderError(error, x);
  const headers = ["content-type", "application/json", ...own];
  if (error.status === 503) headers.push("retry-after", String(retryAfterSeconds));
  return { status: error.status, headers, body, code: error.code };
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
  api: CompletionApi,
  x: Exchange,
  failure: InferenceFailure,
  attempt: AttemptFailure | undefined,
): Reply {
  x.note("upstreamFailure", attempt?.cause);
  const code = codeOfFailure[failure];
  const { contextExceeded, retryAfterSeconds } = attempt ?? {};
  if (code !== "INVALID_REQUEST") {
    const reply = errorReply(api, x, completionError(code), { retryAfterSeconds });
    return { ...reply, outcome: failureOutcome(failure) };
  }
  const details =
    contextExceeded === undefined
      ? {}
      : { contextExceeded, message: contextMessage(contextExceeded) };
  return errorReply(api, x, completionError(code, details));
}

/** The message of OpenAI for a prompt that is too long. Some clients read its wording. */
function contextMessage({ limit, requested }: ContextExceeded): string {
  if (limit === undefined) return "the request is longer than the context of the model";
  const wanted = requested === undefined ? "is longer" : `needs ${requested} tokens`;
  return `this model's maximum context length is ${limit} tokens, and the request ${wanted}`;
}
