/** Errors in the shape of the Messages API (agents.md section 5). The gateway's own code is in a header. */
import type { Exchange, Refused, Reply } from "sluice-gateway/plugin";
import type { CompletionError } from "../completions/errors.ts";

/** Statuses that are missing here are `invalid_request_error`, or `api_error` from 500 on. */
const types: Readonly<Record<number, string>> = {
  401: "authentication_error",
  402: "billing_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  503: "overloaded_error",
};

/** The types of errors that replies can have. */
export const errorTypes: readonly string[] = [
  "invalid_request_error",
  "api_error",
  ...Object.values(types),
];

/** Returns `{ type: "error", error: { type, message }, request_id }` as JSON. */
export function errorJson(type: string, message: string, x: Exchange): string {
  const request_id = x.peek("requestId") ?? null;
  return JSON.stringify({ type: "error", error: { type, message }, request_id });
}

/** Returns the header in which clients look for the id of a request: a flat list. */
export function requestIdHeader(x: Exchange): readonly string[] {
  const id = x.peek("requestId");
  return id === undefined ? [] : ["request-id", id];
}

/** Renders an error of a completion. */
export function renderError(
  { status, code, message, contextExceeded }: CompletionError,
  x: Exchange,
): { readonly headers: readonly string[]; readonly body: string } {
  const shown = contextExceeded === undefined ? message : tooLong(contextExceeded);
  return errorParts(status, code, shown, x);
}

/** Agents look for this wording. They shorten the conversation then. */
function tooLong({ limit, requested }: NonNullable<CompletionError["contextExceeded"]>): string {
  const sizes =
    limit === undefined || requested === undefined
      ? ""
      : `: ${requested} tokens > ${limit} maximum`;
  return `prompt is too long${sizes}`;
}

/** Renders a refusal by a step or the core. If the credit is used up, a retry is useless for a long time. */
export function renderRefusal(refused: Refused, x: Exchange): Reply {
  const { status, code, refusal, reached, headers = [] } = refused;
  if (code !== "GATEWAY_CU_LIMIT_EXCEEDED") {
    return errorReply({ status, headers, code, message: refusal.message }, x);
  }
  const clearsAt = typeof reached?.clearsAt === "function" ? reached.clearsAt() : reached?.clearsAt;
  const until =
    clearsAt === undefined ? "" : `; there is room again at ${new Date(clearsAt).toISOString()}`;
  const message = refusal.message + until;
  return errorReply({ status, headers: [...headers, "x-should-retry", "false"], code, message }, x);
}

/** Returns a reply in the shape of the API. `headers`: those in addition to its own. */
export function errorReply(
  {
    status,
    headers,
    code,
    message,
  }: Pick<Reply, "status"> & Required<Pick<Reply, "headers" | "code">> & { message: string },
  x: Exchange,
): Reply {
  const parts = errorParts(status, code, message, x);
  return { status, code, ...parts, headers: [...headers, ...parts.headers] };
}

function errorParts(status: number, code: string, message: string, x: Exchange) {
  const type = types[status] ?? (status < 500 ? "invalid_request_error" : "api_error");
  return {
    headers: [...requestIdHeader(x), "x-sluice-error", code],
    body: errorJson(type, message, x),
  };
}
