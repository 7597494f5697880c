/** Errors in the shape of the Messages API (agents.md section 5). The gateway's own code is in a header. */
import type { Exchange, Refused, Reply } from "sluice-gateway/plugin";
import { clearsAtOf, type CompletionError } from "../completions/errors.ts";

/** Other statuses are `invalid_request_error`, or `api_error` from 500 on. */
const types: ReadonlyMap<number, string> = new Map([
  [401, "authentication_error"],
  [402, "billing_error"],
  [403, "permission_error"],
  [404, "not_found_error"],
  [413, "request_too_large"],
  [429, "rate_limit_error"],
  [503, "overloaded_error"],
]);

export function errorJson(type: string, message: string, x: Exchange): string {
  const request_id = x.peek("requestId") ?? null;
  return JSON.stringify({ type: "error", error: { type, message }, request_id });
}

/** Returns the header in which clients look for the id of a request: a flat list. */
export function requestIdHeader(x: Exchange): readonly string[] {
  const id = x.peek("requestId");
  return id === undefined ? [] : ["request-id", id];
}

export function renderError(
  error: Pick<CompletionError, "status" | "message" | "contextExceeded"> & {
    readonly code: string;
  },
  x: Exchange,
): { readonly headers: readonly string[]; readonly body: string } {
  const { status, code, contextExceeded } = error;
  const message = contextExceeded === undefined ? error.message : tooLong(contextExceeded);
  const type = types.get(status) ?? (status < 500 ? "invalid_request_error" : "api_error");
  return {
    headers: [...requestIdHeader(x), "x-sluice-error", code],
    body: errorJson(type, message, x),
  };
}

/**
 * Agents look for the wording of Anthropic. They shorten the conversation if the prompt is too long, and ask for a
 * shorter answer if the prompt fits.
 */
function tooLong({
  limit,
  requested,
  prompt,
}: NonNullable<CompletionError["contextExceeded"]>): string {
  if (limit === undefined || requested === undefined) return "prompt is too long";
  if (prompt === undefined) return `prompt is too long: ${requested} tokens > ${limit} maximum`;
  const sum = `${prompt} + ${requested - prompt} > ${limit}`;
  return `input length and \`max_tokens\` exceed context limit: ${sum}, decrease input length or \`max_tokens\` and try again`;
}

/** If the credit is used up, a retry is useless for a long time. */
export function renderRefusal(refused: Refused, x: Exchange): Reply {
  const { status, code, refusal, headers = [] } = refused;
  const isUsedUp = code === "GATEWAY_CU_LIMIT_EXCEEDED";
  const clearsAt = isUsedUp ? clearsAtOf(refused) : undefined;
  const until = clearsAt === undefined ? "" : `, until ${new Date(clearsAt).toISOString()}`;
  const rendered = renderError({ status, code, message: refusal.message + until }, x);
  const noRetry = isUsedUp ? ["x-should-retry", "false"] : [];
  return { status, ...rendered, headers: [...headers, ...rendered.headers, ...noRetry] };
}
