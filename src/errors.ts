/**
 * The two catalogues of errors: `GATEWAY_*` codes, which clients see, and `SLUICE_*` codes, which operators see when a
 * configuration or a start fails. A code is never reused for another meaning.
 */
import type { Reply } from "./plugin.ts";

interface GatewayError {
  readonly status: number;
  readonly message: string;
  /** Seconds; sent as `Retry-After`. A floor: callers add jittered backoff. */
  readonly retryAfter?: number;
}

/** gateway.md, "Codes": status, default message and the floor for a retry. */
export const gatewayErrors = {
  GATEWAY_INVALID_PARAMS: { status: 400, message: "invalid parameters" },
  GATEWAY_SCHEMA_VIOLATION: { status: 400, message: "the request does not match its schema" },
  GATEWAY_BATCH_TOO_LARGE: { status: 400, message: "too many calls in one batch" },
  GATEWAY_WRITE_IN_BATCH: { status: 400, message: "a write tool cannot be part of a batch" },
  GATEWAY_INVALID_IDEMPOTENCY_KEY: { status: 400, message: "invalid idempotency key" },
  GATEWAY_UNAUTHORIZED: { status: 401, message: "unauthorized" },
  GATEWAY_PERMISSION_DENIED: { status: 403, message: "permission denied" },
  GATEWAY_NOT_FOUND: { status: 404, message: "not found" },
  GATEWAY_TOOL_NOT_FOUND: { status: 404, message: "unknown tool" },
  GATEWAY_CONFLICT: { status: 409, message: "conflict" },
  GATEWAY_CONFIRMATION_EXPIRED: { status: 410, message: "the confirmation token has expired" },
  GATEWAY_IDEMPOTENCY_KEY_MISMATCH: {
    status: 422,
    message: "the idempotency key was used with another body",
  },
  GATEWAY_CONFIRMATION_REQUIRED: { status: 202, message: "confirmation required" },
  GATEWAY_RATE_LIMITED: { status: 429, message: "too many requests", retryAfter: 1 },
  GATEWAY_CU_LIMIT_EXCEEDED: { status: 429, message: "credit limit exceeded", retryAfter: 60 },
  GATEWAY_INTERNAL_ERROR: { status: 500, message: "internal error" },
  GATEWAY_TOOL_EXECUTION_ERROR: { status: 500, message: "the tool failed" },
  GATEWAY_SERVICE_UNAVAILABLE: {
    status: 503,
    message: "temporarily unavailable",
    retryAfter: 5,
  },
} as const satisfies Record<string, GatewayError>;

export type GatewayCode = keyof typeof gatewayErrors;

interface RefuseOptions {
  readonly message?: string;
  /** Omitted from the body when empty. */
  readonly details?: Readonly<Record<string, unknown>>;
  /** Another status for the same code: 413, 415 and 405 are all GATEWAY_INVALID_PARAMS. */
  readonly status?: number;
  /** Further headers, flat name, value … */
  readonly headers?: readonly string[];
}

/** An error in the canonical envelope `{ error, error_code, details? }`, as a value to return from a hook. */
export function refuse(code: GatewayCode, options: RefuseOptions = {}): Reply {
  const entry: GatewayError = gatewayErrors[code];
  const { message = entry.message, details, status = entry.status } = options;
  const hasDetails = details !== undefined && Object.keys(details).length > 0;
  const headers = ["content-type", "application/json"];
  if (entry.retryAfter !== undefined) headers.push("retry-after", String(entry.retryAfter));
  if (options.headers !== undefined) headers.push(...options.headers);
  return {
    status,
    headers,
    body: JSON.stringify({ error: message, error_code: code, ...(hasDetails && { details }) }),
    code,
  };
}
