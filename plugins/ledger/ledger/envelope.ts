/** The JSON-RPC responses of the node proxy: the client's id with the node's unchanged bytes or one of five errors. */
import { encloseBody, type Enclosed, type JsonBody } from "./json-body.ts";
import type { AnswerKind, NodeFailure } from "./node-pool.ts";

/** Codes: gateway.md, "Proxy errors". Messages: decisions.md section 5. */
const errors = {
  parse: '{"code":-32700,"message":"Parse error"}',
  invalid: '{"code":-32600,"message":"Invalid Request"}',
  notAllowed: '{"code":-32601,"message":"Method Not Allowed"}',
  internal: '{"code":-32603,"message":"Internal Error"}',
  disagreement: '{"code":-32603,"message":"Internal Error","data":{"errorCode":"NODES_DISAGREE"}}',
} as const;

export function failureResponse(id: string, failure: NodeFailure): string {
  return errorResponse(id, failure === "disagreement" ? "disagreement" : "internal");
}

export type RpcError = keyof typeof errors;

/** `id`: JSON text, unchanged from the request. */
export function errorResponse(id: string, error: RpcError): string {
  return refusal(id, errors[error]);
}

/** Returns a response with an error of the caller of `Ledger.rpc`. `error`: JSON text. */
export function refusal(id: string, error: string): string {
  return `{"jsonrpc":"2.0","id":${id},"error":${error}}`;
}

/** Returns a response whose members have the same order as those of Substrate nodes. */
export function nodeResponse(id: string, kind: AnswerKind, body: JsonBody): JsonBody {
  return encloseBody(beforeBody(id, kind), body, "}");
}

/** Returns the same response, which shares a large body. The body must not change afterwards. */
export function sharedResponse(id: string, kind: AnswerKind, body: JsonBody): string | Enclosed {
  const before = beforeBody(id, kind);
  return typeof body === "string" ? `${before}${body}}` : { before, body, after: "}" };
}

function beforeBody(id: string, kind: AnswerKind): string {
  return `{"jsonrpc":"2.0","id":${id},"${kind}":`;
}
