/**
 * Errors in the shape of OpenAI's API, for the surfaces that speak it: `{ error: { message, type, param, code } }`, with
 * the gateway's own code in a header (decisions.md section 15).
 */
import type { Refused, Reply } from "sluice-gateway/plugin";
import type { CompletionError } from "./errors.ts";

const codeHeader = "x-sluice-error";

/** The members of OpenAI's error. */
export interface OpenaiError {
  readonly message: string;
  readonly type: string;
  /** The member of the request that is wrong, such as `input[3].type`. */
  readonly param: string | null;
  readonly code: string | null;
}

/** Returns the error of a completion. Clients read its code and its type. */
export function openaiErrorOf(failed: CompletionError): OpenaiError {
  const { code, status, message, contextExceeded } = failed;
  const param = failed.param ?? null;
  const error = { message, type: typeOf(status), param };
  if (contextExceeded !== undefined) return { ...error, code: "context_length_exceeded" };
  if (code === "MODEL_NOT_FOUND") return { ...error, param: "model", code: "model_not_found" };
  if (status >= 500) return { ...error, code: "server_error" };
  return { ...error, code: param === null ? null : "unsupported_parameter" };
}

/** Renders the error of a completion, for `CompletionApi.renderError`. */
export function renderOpenaiError(
  error: CompletionError,
): Pick<Reply, "headers"> & { body: string } {
  return {
    headers: [codeHeader, error.code],
    body: JSON.stringify({ error: openaiErrorOf(error) }),
  };
}

/** Renders a refusal of a step or of the core, for `SurfaceHooks.renderRefusal`. */
export function renderOpenaiRefusal(refused: Refused): Reply {
  const { status, code, refusal } = refused;
  const headers = [...(refused.headers ?? []), codeHeader, code];
  const error = {
    message: refusal.message,
    type: typeOf(status),
    param: null,
    code: codeOf(code, status),
  };
  if (code !== "GATEWAY_CU_LIMIT_EXCEEDED") return replyOf(status, headers, error);
  // Codex shows the time and ends. Without the header, the SDKs would repeat the request.
  const resetsAt = secondsOf(refused.reached?.clearsAt);
  return replyOf(status, [...headers, "x-should-retry", "false"], {
    ...error,
    type: "usage_limit_reached",
    code: "insufficient_quota",
    ...(resetsAt !== undefined && { resets_at: resetsAt }),
  });
}

function replyOf(status: number, headers: readonly string[], error: OpenaiError): Reply {
  return { status, headers, body: JSON.stringify({ error }) };
}

function typeOf(status: number): string {
  if (status >= 500) return "server_error";
  if (status === 403) return "permission_error";
  return status === 429 ? "rate_limit_error" : "invalid_request_error";
}

function codeOf(code: string, status: number): string | null {
  if (code === "GATEWAY_UNAUTHORIZED") return "invalid_api_key";
  if (code === "GATEWAY_RATE_LIMITED") return "rate_limit_exceeded";
  return status >= 500 ? "server_error" : null;
}

/** Returns Unix seconds, rounded up. */
function secondsOf(
  time: NonNullable<Refused["reached"]>["clearsAt"] | undefined,
): number | undefined {
  const ms = typeof time === "function" ? time() : time;
  return ms === undefined ? undefined : Math.ceil(ms / 1000);
}
