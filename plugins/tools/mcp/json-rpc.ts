/** JSON-RPC 2.0 as this protocol uses it: what a message is, and answers spliced from JSON text. */
import type { CallFailureCode, Host, Reply } from "sluice-gateway/plugin";

export type Params = Readonly<Record<string, unknown>>;

/** JSON-RPC's own codes, and those that revision 2026-07-28 adds. */
export const codes = {
  parse: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internal: -32603,
  headerMismatch: -32020,
  missingCapability: -32021,
  unsupportedVersion: -32022,
} as const;

/** `id` is JSON text. `response`: a client's answer to a question; `result` undefined where it is an error. */
export type Message =
  | {
      readonly kind: "request";
      readonly id: string;
      readonly method: string;
      readonly params: unknown;
    }
  | { readonly kind: "notification"; readonly method: string; readonly params: unknown }
  | { readonly kind: "response"; readonly id: unknown; readonly result: unknown }
  | { readonly kind: "invalid" };

/** An error of the protocol itself, before it has an id. */
export interface RpcFailure {
  readonly code: number;
  readonly message: string;
  readonly data?: object;
}

/** Of an array, which only revision 2025-03-26 knows. */
export const maxItems = 20;

const invalid: Message = { kind: "invalid" };
export const jsonHeaders: readonly string[] = ["content-type", "application/json"];
export const accepted: Reply = { status: 202 };

export function isObject(value: unknown): value is Params {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** `exactId` gives the text of a number that a double may not hold. */
export function messageOf(value: unknown, exactId: () => string | undefined): Message {
  if (!isObject(value) || value["jsonrpc"] !== "2.0") return invalid;
  const { method, params } = value;
  if (typeof method !== "string") {
    const answers = method === undefined && ("result" in value || "error" in value);
    return answers ? { kind: "response", id: value["id"], result: value["result"] } : invalid;
  }
  if (!("id" in value)) return { kind: "notification", method, params };
  const id = idText(value["id"], exactId);
  return id === undefined ? invalid : { kind: "request", id, method, params };
}

/** The id as JSON text; undefined: it is neither a string nor a number. */
function idText(id: unknown, exactId: () => string | undefined): string | undefined {
  if (typeof id === "string") return JSON.stringify(id);
  if (typeof id !== "number") return undefined;
  return Number.isSafeInteger(id) ? String(id) : exactId();
}

/**
 * The id of one message of a body, or of an array with at most `maxItems`, as the client wrote it: 1e400 and
 * 12345678901234567890 come back as sent.
 */
export function idAsSent(
  host: Pick<Host, "readJsonRpc">,
  body: Buffer | undefined,
  index: number | undefined,
): string | undefined {
  if (body === undefined) return undefined;
  const read = host.readJsonRpc(body, maxItems);
  const item =
    read.kind === "single"
      ? read.item
      : read.kind === "batch" && index !== undefined
        ? read.items[index]
        : undefined;
  return item === undefined || item.kind === "notification" ? undefined : item.id;
}

export function resultText(id: string, result: string): string {
  return `{"jsonrpc":"2.0","id":${id},"result":${result}}`;
}

export function errorText(id: string, failure: RpcFailure): string {
  const { code, message, data } = failure;
  const error = JSON.stringify({ code, message, ...(data !== undefined && { data }) });
  return `{"jsonrpc":"2.0","id":${id},"error":${error}}`;
}

/** A reply that is a JSON-RPC error. The core sends what a Reply has; the failure is for the report of the request. */
interface FailedReply extends Reply {
  readonly failure: RpcFailure;
}

/** A JSON-RPC error with this HTTP status. */
export function failed(status: number, id: string, failure: RpcFailure): FailedReply {
  return { status, headers: jsonHeaders, body: errorText(id, failure), failure };
}

/** The code of a reply made by `failed`, for reports; undefined for any other reply. */
export function failureCode(reply: Reply | undefined): string | undefined {
  const isFailed = reply !== undefined && "failure" in reply;
  // Only `failed` adds this member.
  return isFailed ? codeOf((reply as FailedReply).failure) : undefined;
}

const reportedCodes: Readonly<Record<number, CallFailureCode>> = {
  [codes.parse]: "PARSE_ERROR",
  [codes.methodNotFound]: "METHOD_NOT_FOUND",
  [codes.invalidParams]: "INVALID_PARAMS",
  [codes.internal]: "UPSTREAM_ERROR",
};

/** The code by which logs and metrics know an error. */
export function codeOf({ code, data }: RpcFailure): string {
  const named: unknown = data !== undefined && "errorCode" in data ? data.errorCode : undefined;
  return typeof named === "string" ? named : (reportedCodes[code] ?? "INVALID_REQUEST");
}

export const invalidRequest: RpcFailure = {
  code: codes.invalidRequest,
  message: "Invalid Request",
};

export function invalidParams(message: string): RpcFailure {
  const data = { errorCode: "GATEWAY_INVALID_PARAMS" };
  return { code: codes.invalidParams, message: `Invalid params: ${message}`, data };
}

/** The method's name is not repeated: it is the client's own text. */
export const methodNotFound: RpcFailure = {
  code: codes.methodNotFound,
  message: "Method not found",
};

/** PrecomputedResults here have one page, so that no cursor can be one of ours. */
export const noCursor: RpcFailure = invalidParams("there is one page and no cursor");
