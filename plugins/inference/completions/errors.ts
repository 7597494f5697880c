/** Errors of completions and their messages. Each API renders them in its own form (decisions.md, sections 8 and 15). */
import type { Refused } from "sluice-gateway/plugin";
import type { AttemptFailure, ContextExceeded, InferenceFailure } from "sluice-gateway/services";

const errors = {
  INVALID_REQUEST: { status: 400, message: "the request is not valid" },
  MODEL_NOT_FOUND: { status: 404, message: "there is no such model" },
  MODEL_NOT_AVAILABLE: { status: 503, message: "the model is not available at the moment" },
  // Agents look for the words "server error", and repeat a request whose stream has broken then.
  UPSTREAM_ERROR: { status: 503, message: "the model could not answer because of a server error" },
  VERIFICATION_FAILED: {
    status: 502,
    message: "the evidence or the bill of the model failed a check",
  },
  UNAUTHORIZED: { status: 401, message: "the network does not accept the key of this gateway" },
  INSUFFICIENT_BALANCE: { status: 402, message: "the balance at the network is used up" },
  RATE_LIMITED: { status: 429, message: "the network limits the rate of requests" },
} as const;

export type CompletionErrorCode = keyof typeof errors;

export interface CompletionError {
  readonly code: CompletionErrorCode;
  readonly status: number;
  /** The message never has text from a worker. */
  readonly message: string;
  readonly param?: string | undefined;
  /** A code of the API that is more precise than `code`. */
  readonly apiCode?: string | undefined;
  readonly contextExceeded?: ContextExceeded | undefined;
}

const codeOfFailure: Readonly<Record<InferenceFailure, CompletionErrorCode>> = {
  rejected: "INVALID_REQUEST",
  notServed: "MODEL_NOT_AVAILABLE",
  unavailable: "UPSTREAM_ERROR",
  broken: "UPSTREAM_ERROR",
  timedOut: "UPSTREAM_ERROR",
};

type Details = Partial<Pick<CompletionError, "message" | "param" | "apiCode" | "contextExceeded">>;

export function completionError(code: CompletionErrorCode, details: Details = {}): CompletionError {
  return { code, ...errors[code], ...details };
}

export function errorOfFailure(
  failure: InferenceFailure,
  attempt: AttemptFailure | undefined,
): CompletionError {
  const { failedCheck, refusal, contextExceeded, cause } = attempt ?? {};
  if (failedCheck !== undefined) {
    return completionError("VERIFICATION_FAILED", { message: failedCheck });
  }
  const code = refusal ?? codeOfFailure[failure];
  if (code !== "INVALID_REQUEST") return completionError(code);
  if (contextExceeded !== undefined) {
    return completionError(code, { contextExceeded, message: contextMessage(contextExceeded) });
  }
  return completionError(code, cause?.status === 413 ? { message: tooLargeMessage } : {});
}

const tooLargeMessage = "the request has more bytes than the server of the model accepts";

/** The message of OpenAI for a prompt that is too long. Some clients read its wording. */
function contextMessage({ limit, requested }: ContextExceeded): string {
  if (limit === undefined) return "the request is longer than the context of the model";
  const wanted = requested === undefined ? "is longer" : `needs ${requested} tokens`;
  return `this model's maximum context length is ${limit} tokens, and the request ${wanted}`;
}

export type FailureOutcome = "timedOut" | "upstreamFailed";

export function failureOutcome(failure: InferenceFailure): FailureOutcome {
  return failure === "timedOut" ? "timedOut" : "upstreamFailed";
}

export function notFoundMessage(model: string, network: string | undefined): string {
  const path = network === undefined ? "/v1/models" : `/${network}/v1/models`;
  return `the model "${printable(model)}" does not exist; GET ${path} lists the models`;
}

export function notSpokenMessage(api: string, network: string): string {
  return `${api} are not available in the network ${network}, because encrypted networks answer chat only`;
}

const maxShownChars = 128;

/** Removes what a terminal or a log would interpret. */
function printable(text: string): string {
  const shown = text.slice(0, maxShownChars).replaceAll(/[^ -~]|["\\]/g, "?");
  return text.length > maxShownChars ? `${shown}…` : shown;
}

/** Returns the time at which the limit leaves room again, in milliseconds since 1970. Undefined if it is not known. */
export function clearsAtOf({ reached }: Refused): number | undefined {
  const { clearsAt } = reached ?? {};
  return typeof clearsAt === "function" ? clearsAt() : clearsAt;
}
