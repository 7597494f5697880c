/**
 * Errors in the shape of OpenAI's API, for the surfaces that speak it: `{ error: { message, type, param, code } }`, with
 * the gateway's own code in a header (decisions.md section 15).
 */
import type { Exchange, Refused, Reply } from "sluice-gateway/plugin";
import type { CompletionApi } from "./api.ts";
import { clearsAtOf, type CompletionError } from "./errors.ts";

export interface OpenaiErrorOptions {
  /** The value of `param` if no member of the request is the reason. */
  readonly noParam: string | null;
  /** The member with the prompt, for one that is too long. */
  readonly promptParam: string;
}

export interface OpenaiErrors {
  readonly renderError: CompletionApi["renderError"];
  readonly renderRefusal: (refused: Refused, x: Exchange) => Reply;
}

interface Kind {
  readonly type: string;
  readonly code: string;
}

const serverError: Kind = { type: "server_error", code: "server_error" };
const invalidRequest: Kind = { type: "invalid_request_error", code: "invalid_request" };

/** The errors that OpenAI's clients tell apart. */
const kinds: Readonly<Record<string, Kind | undefined>> = {
  GATEWAY_UNAUTHORIZED: { ...invalidRequest, code: "invalid_api_key" },
  GATEWAY_PERMISSION_DENIED: { type: "permission_error", code: "permission_denied" },
  GATEWAY_RATE_LIMITED: { type: "rate_limit_error", code: "rate_limit_exceeded" },
  // Codex shows the time in `resets_at` and stops.
  GATEWAY_CU_LIMIT_EXCEEDED: { type: "usage_limit_reached", code: "insufficient_quota" },
  UNAUTHORIZED: { ...invalidRequest, code: "invalid_api_key" },
  INSUFFICIENT_BALANCE: { type: "insufficient_quota", code: "insufficient_quota" },
  RATE_LIMITED: { type: "rate_limit_error", code: "rate_limit_exceeded" },
  MODEL_NOT_FOUND: { ...invalidRequest, code: "model_not_found" },
};

export function openaiErrors({ noParam, promptParam }: OpenaiErrorOptions): OpenaiErrors {
  const errorOf = (kind: Kind, message: string, param: string | null = noParam): object => ({
    message,
    type: kind.type,
    param,
    code: kind.code,
  });
  return {
    renderError(failed) {
      const kind = kindOfError(failed);
      const param = failed.contextExceeded === undefined ? failed.param : promptParam;
      const error = errorOf(kind, failed.message, param);
      return { headers: codeHeader(failed.code), body: JSON.stringify({ error }) };
    },
    renderRefusal(refused, x) {
      const { status, headers = [], code, refusal } = refused;
      const own = [...headers, ...codeHeader(code)];
      const error = errorOf(kindOf(code, status), refusal.message);
      if (code !== "GATEWAY_CU_LIMIT_EXCEEDED") return replyOf(status, own, error);
      // Agents would retry for minutes, without saying why.
      own.push("x-should-retry", "false");
      const clearsAt = clearsAtOf(refused);
      if (clearsAt === undefined) return replyOf(status, own, error);
      const resetsAt = Math.ceil(clearsAt / 1000);
      const wait = Math.ceil(resetsAt - x.arrivedAt / 1000);
      const time = new Date(resetsAt * 1000).toISOString();
      const message = `${refusal.message}; there is room again at ${time}`;
      return replyOf(status, withRetryAfter(own, wait), { ...error, message, resets_at: resetsAt });
    },
  };
}

function kindOf(code: string, status: number): Kind {
  return kinds[code] ?? (status >= 500 ? serverError : invalidRequest);
}

function kindOfError({ code, status, apiCode, contextExceeded }: CompletionError): Kind {
  const kind = kindOf(code, status);
  if (contextExceeded !== undefined) return { ...kind, code: "context_length_exceeded" };
  return { ...kind, code: apiCode ?? kind.code };
}

function codeHeader(code: string): readonly string[] {
  return ["x-sluice-error", code];
}

function replyOf(status: number, headers: readonly string[], error: object): Reply {
  return { status, headers, body: JSON.stringify({ error }) };
}

/** Raises `retry-after` to `seconds`. A longer wait is kept. */
function withRetryAfter(headers: readonly string[], seconds: number): string[] {
  return headers.map((value, at) =>
    at % 2 === 1 && headers[at - 1] === "retry-after"
      ? String(Math.max(Number(value), seconds))
      : value,
  );
}
