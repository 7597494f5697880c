/** The replies for failed completions, in the shape of an API. */
import type { Exchange, Reply } from "sluice-gateway/plugin";
import type { AttemptFailure, ContextExceeded, InferenceFailure } from "sluice-gateway/services";
import type { CompletionApi } from "./api.ts";
import { completionError, errorOfFailure, failureOutcome, type CompletionError } from "./errors.ts";

/** The minimum of gateway.md, "Retry-After values". */
const minRetryAfterSeconds = 5;

/** Renders an error. `retryAfterSeconds` replaces the general wait of a 429 or 503. */
export function errorReply(
  api: Pick<CompletionApi, "renderError">,
  x: Exchange,
  error: CompletionError,
  {
    retryAfterSeconds = minRetryAfterSeconds,
  }: { readonly retryAfterSeconds?: number | undefined } = {},
): Reply {
  const { headers: own = [], body } = api.renderError(error, x);
  const headers = ["content-type", "application/json", ...own];
  if (error.status === 503 || error.status === 429)
    headers.push("retry-after", String(retryAfterSeconds));
  return { status: error.status, headers, body, code: error.code };
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
  const error = errorOfFailure(failure, attempt);
  const { contextExceeded, retryAfterSeconds } = attempt ?? {};
  if (error.code !== "INVALID_REQUEST") {
    const reply = errorReply(api, x, error, { retryAfterSeconds });
    return { ...reply, outcome: failureOutcome(failure) };
  }
  const details =
    contextExceeded === undefined
      ? {}
      : { contextExceeded, message: contextMessage(contextExceeded) };
  return errorReply(api, x, completionError(error.code, details));
}

/** The message of OpenAI for a prompt that is too long. Some clients read its wording. */
function contextMessage({ limit, requested }: ContextExceeded): string {
  if (limit === undefined) return "the request is longer than the context of the model";
  const wanted = requested === undefined ? "is longer" : `needs ${requested} tokens`;
  return `this model's maximum context length is ${limit} tokens, and the request ${wanted}`;
}
