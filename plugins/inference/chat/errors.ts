/** Errors of the chat surface, in the format that chat clients read (decisions.md section 8). */
import type { Reply } from "sluice-gateway/plugin";
import type { InferenceFailure } from "sluice-gateway/services";

const invalid = "invalid_request_error";
const internal = "internal_error";
/** Time in seconds: the minimum of gateway.md, "Retry-After values". */
const retryAfter = "5";

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

/** `message`: replaces the general message of the code. */
export function chatError(
  code: ChatErrorCode,
  { message, outcome }: { readonly message?: string; readonly outcome?: Reply["outcome"] } = {},
): Reply {
  const { status } = errors[code];
  const headers = ["content-type", "application/json"];
  if (status === 503) headers.push("retry-after", retryAfter);
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

/** Returns the reply for an answer that failed before it began. */
export function failureReply(failure: InferenceFailure): Reply {
  const code = codeOfFailure[failure];
  return chatError(code, code === "INVALID_REQUEST" ? {} : { outcome: failureOutcome(failure) });
}
