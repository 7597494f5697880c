/** Errors of the chat surface, in the shape that chat clients read (decisions.md section 8). */
import type { InferenceFailure, Reply } from "sluice-gateway/plugin";

const invalid = "invalid_request_error";
const internal = "internal_error";
/** Seconds; the floor of gateway.md, "Retry-After values". */
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

/** Why an answer failed, as its caller is told: nothing that a worker said is passed on. */
export const codeOfFailure: Readonly<Record<InferenceFailure, ChatErrorCode>> = {
  rejected: "INVALID_REQUEST",
  notServed: "MODEL_NOT_AVAILABLE",
  unavailable: "UPSTREAM_ERROR",
  broken: "UPSTREAM_ERROR",
  timedOut: "UPSTREAM_ERROR",
};

/** `message`: where the caller can be told more. */
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

/** `{"error":{…}}`, as in a reply and in the last event of a stream that broke. */
export function errorJson(code: ChatErrorCode, message: string = errors[code].message): string {
  return JSON.stringify({ error: { message, type: errors[code].type, code } });
}
