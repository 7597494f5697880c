import { readJsonRpc } from "sluice-gateway/plugin";
import type { Reply } from "sluice-gateway/plugin";
import { isObject } from "sluice-gateway/internal/toolkit";
import { errorText, maxItems, type RpcFailure } from "../json-rpc-texts.ts";

export type Params = Readonly<Record<string, unknown>>;

/** The codes of JSON-RPC, and those that revision 2026-07-28 adds. */
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

/** `id`: JSON text. `response`: the answer of a client to a question; its `result` is undefined if it is an error. */
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

const invalid: Message = { kind: "invalid" };
export const jsonHeaders: readonly string[] = ["content-type", "application/json"];
export const accepted: Reply = { status: 202 };

/** `exactId`: returns the text of a number that a double cannot represent. */
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

function idText(id: unknown, exactId: () => string | undefined): string | undefined {
  if (typeof id === "string") return JSON.stringify(id);
  if (typeof id !== "number") return undefined;
  return Number.isSafeInteger(id) ? String(id) : exactId();
}

/**
 * Returns the id of a message, or of an item of an array, exactly as the client wrote it: 1e400 and
 * 12345678901234567890 come back unchanged.
 */
export function idAsSent(body: Buffer | undefined, index: number | undefined): string | undefined {
  if (body === undefined) return undefined;
  const read = readJsonRpc(body, maxItems);
  const item =
    read.kind === "single"
      ? read.item
      : read.kind === "batch" && index !== undefined
        ? read.items[index]
        : undefined;
  return item === undefined || item.kind === "notification" ? undefined : item.id;
}

/** Only the members of a Reply are sent; `failure` is for the report of the request. */
interface ErrorReply extends Reply {
  readonly failure: RpcFailure;
}

export function errorReply(status: number, id: string, failure: RpcFailure): ErrorReply {
  return { status, headers: jsonHeaders, body: errorText(id, failure), failure };
}

export function failureCode(reply: Reply | undefined): string | undefined {
  const isFailed = reply !== undefined && "failure" in reply;
  // Only `errorReply` adds this member.
  return isFailed ? codeOf((reply as ErrorReply).failure) : undefined;
}

const reportedCodes: Readonly<Record<number, string>> = {
  [codes.parse]: "PARSE_ERROR",
  [codes.methodNotFound]: "METHOD_NOT_FOUND",
  [codes.invalidParams]: "INVALID_PARAMS",
  [codes.internal]: "UPSTREAM_ERROR",
};

export function codeOf({ code, data }: RpcFailure): string {
  const named: unknown = data !== undefined && "errorCode" in data ? data.errorCode : undefined;
  return typeof named === "string" ? named : (reportedCodes[code] ?? "INVALID_REQUEST");
}

export const internalError: RpcFailure = { code: codes.internal, message: "Internal error" };

export const invalidRequest: RpcFailure = {
  code: codes.invalidRequest,
  message: "Invalid Request",
};

export function invalidParams(message: string): RpcFailure {
  const data = { errorCode: "GATEWAY_INVALID_PARAMS" };
  return { code: codes.invalidParams, message: `Invalid params: ${message}`, data };
}

/** The message does not repeat the method, because that is text from the client. */
export const methodNotFound: RpcFailure = {
  code: codes.methodNotFound,
  message: "Method not found",
};

/** Lists have a single page, so a cursor cannot come from this server. */
export const noCursor: RpcFailure = invalidParams("unknown cursor: the list has one page");
