/** The object of a response, as JSON. */
import type { Charged, Completion } from "../completions/api.ts";
import { completionError } from "../completions/errors.ts";

type Status = "in_progress" | "completed" | "incomplete" | "failed";

/** The part of a response that changes while it is written. */
export interface ResponseState {
  readonly status: Status;
  /** Default: none. */
  readonly output?: readonly unknown[];
  /** Undefined while the response is in progress. */
  readonly charged?: Charged;
  /** The message of a failure. */
  readonly message?: string;
}

/** Reasons why an answer is incomplete, by finish reason. */
const incompleteReasons: ReadonlyMap<string | undefined, string> = new Map([
  ["length", "max_output_tokens"],
  ["content_filter", "content_filter"],
]);

/** Returns the status of a response that did not fail. */
export function endStatus({ result }: Charged): "completed" | "incomplete" {
  return incompleteReasons.has(result.finishReason) ? "incomplete" : "completed";
}

/** Returns a response with all members that Open Responses requires. `repeated`: JSON of the members of the request. */
export function responseJson(
  { id, created, request, clock }: Completion,
  repeated: string,
  {
    status,
    output = [],
    charged,
    message = completionError("UPSTREAM_ERROR").message,
  }: ResponseState,
): string {
  const now = Math.floor(clock.now() / 1000);
  const own = {
    id,
    object: "response",
    created_at: created,
    completed_at: status === "completed" ? Math.max(created, now) : null,
    status,
    background: false,
    error: status === "failed" ? { code: "server_error", message } : null,
    incomplete_details:
      status === "incomplete"
        ? { reason: incompleteReasons.get(charged?.result.finishReason) }
        : null,
    model: request.model,
    output,
    previous_response_id: null,
    max_tool_calls: null,
    safety_identifier: null,
    service_tier: "default",
    store: false,
    truncation: "disabled",
    usage: charged === undefined ? null : usageOf(charged),
    user: null,
  };
  return `${JSON.stringify(own).slice(0, -1)},${repeated.slice(1)}`;
}

/** Returns OpenAI's members, and `usedCUMilli`, the charge. */
function usageOf({ result, usedMilliCu }: Charged): object {
  const { promptTokens, completionTokens, cachedTokens = 0, reasoningTokens = 0 } = result.usage;
  return {
    input_tokens: promptTokens,
    input_tokens_details: { cached_tokens: cachedTokens },
    output_tokens: completionTokens,
    output_tokens_details: { reasoning_tokens: reasoningTokens },
    total_tokens: promptTokens + completionTokens,
    usedCUMilli: usedMilliCu,
  };
}
