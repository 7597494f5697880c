/** The Responses API: how its requests are read, and its errors in OpenAI's shape (decisions.md section 15). */
import type { Exchange, Refused, Reply } from "sluice-gateway/plugin";
import type { CompletionApi } from "../completions/api.ts";
import type { CompletionError } from "../completions/errors.ts";
import type { ReasoningSeal } from "../completions/sealed-reasoning.ts";
import { readResponsesRequest } from "./request.ts";

export function createResponsesApi(seal: ReasoningSeal): CompletionApi {
  return {
    method: "responses",
    idPrefix: "resp_",
    read: (body, promptOptionsOf) => readResponsesRequest(body, promptOptionsOf, seal),
    renderError: (error) => ({ headers: codeHeader(error.code), body: errorJson(error) }),
  };
}

interface Kind {
  readonly type: string;
  readonly code: string;
}

const serverError: Kind = { type: "server_error", code: "server_error" };
const invalidRequest: Kind = { type: "invalid_request_error", code: "invalid_request" };
/** OpenAI has null here, but `@ai-sdk/open-responses` shows only messages of errors whose members are all texts. */
const noParam = "";

/** Types and codes of OpenAI for the refusals that its clients tell apart. */
const kinds: Readonly<Record<string, Kind | undefined>> = {
  GATEWAY_UNAUTHORIZED: { ...invalidRequest, code: "invalid_api_key" },
  GATEWAY_PERMISSION_DENIED: { type: "permission_error", code: "permission_denied" },
  GATEWAY_RATE_LIMITED: { type: "rate_limit_error", code: "rate_limit_exceeded" },
  // Codex shows the time in `resets_at` and stops.
  GATEWAY_CU_LIMIT_EXCEEDED: { type: "usage_limit_reached", code: "insufficient_quota" },
  MODEL_NOT_FOUND: { ...invalidRequest, code: "model_not_found" },
};

function errorJson({
  code,
  status,
  message,
  param,
  apiCode,
  contextExceeded,
}: CompletionError): string {
  const kind = kindOf(code, status);
  const error =
    contextExceeded === undefined
      ? { message, type: kind.type, param: param ?? noParam, code: apiCode ?? kind.code }
      : { message, type: kind.type, param: "input", code: "context_length_exceeded" };
  return JSON.stringify({ error });
}

/** Renders a refusal of the core, of a step or of the call path. */
export function renderRefusal(refused: Refused, x: Exchange): Reply {
  const { status, headers = [], code, refusal, reached } = refused;
  const { message } = refusal;
  const kind = kindOf(code, status);
  const own = [...headers, ...codeHeader(code)];
  const error = { message, type: kind.type, param: noParam, code: kind.code };
  if (code !== "GATEWAY_CU_LIMIT_EXCEEDED") {
    return { status, headers: own, body: JSON.stringify({ error }) };
  }
  // Agents would retry for minutes, without saying why.
  own.push("x-should-retry", "false");
  const clearsAt = typeof reached?.clearsAt === "function" ? reached.clearsAt() : reached?.clearsAt;
  if (clearsAt === undefined) return { status, headers: own, body: JSON.stringify({ error }) };
  const resetsAt = Math.ceil(clearsAt / 1000);
  const until = new Date(resetsAt * 1000).toISOString();
  const waitSeconds = Math.max(1, Math.ceil(resetsAt - x.arrivedAt / 1000));
  return {
    status,
    headers: withRetryAfter(own, waitSeconds),
    body: JSON.stringify({
      error: {
        ...error,
        message: `${message}; there is room again at ${until}`,
        resets_at: resetsAt,
      },
    }),
  };
}

function kindOf(code: string, status: number): Kind {
  return kinds[code] ?? (status >= 500 ? serverError : invalidRequest);
}

function codeHeader(code: string): readonly string[] {
  return ["x-sluice-error", code];
}

/** Replaces the general wait of a refusal if the limit leaves room later. */
function withRetryAfter(headers: readonly string[], seconds: number): string[] {
  return headers.map((value, at) =>
    headers[at - 1] === "retry-after" && at % 2 === 1
      ? String(Math.max(Number(value), seconds))
      : value,
  );
}
