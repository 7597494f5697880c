import type { Exchange, Reply } from "sluice-gateway/plugin";
import type { CompletionApi } from "./api.ts";
import type { CompletionError } from "./errors.ts";

/** The minimum of gateway.md, "Retry-After values". */
const minRetryAfterSeconds = 5;

/** `retryAfterSeconds` replaces the general wait of a 429 or 503. */
export function errorReply(
  api: Pick<CompletionApi, "renderError">,
  x: Exchange,
  error: CompletionError,
  retryAfterSeconds = minRetryAfterSeconds,
): Reply {
  const { headers: own = [], body } = api.renderError(error, x);
  const headers = ["content-type", "application/json", ...own];
  if (error.status === 503 || error.status === 429)
    headers.push("retry-after", String(retryAfterSeconds));
  return { status: error.status, headers, body, code: error.code };
}
