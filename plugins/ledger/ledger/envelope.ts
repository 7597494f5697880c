/** The JSON-RPC responses of the node proxy: the client's own id, and the node's own bytes or one of four errors. */
import { wrap, type Body } from "./body.ts";

/** gateway.md, "Proxy errors", and decisions.md section 5 for the messages. */
const errors = {
  parse: '{"code":-32700,"message":"Parse error"}',
  invalid: '{"code":-32600,"message":"Invalid Request"}',
  notAllowed: '{"code":-32601,"message":"Method Not Allowed"}',
  internal: '{"code":-32603,"message":"Internal Error"}',
} as const;

/** What the gateway itself has against a request. */
export type RpcError = keyof typeof errors;

/** `id`: JSON text, as the client wrote it. */
export function errorResponse(id: string, error: RpcError): string {
  return `{"jsonrpc":"2.0","id":${id},"error":${errors[error]}}`;
}

/** The order of members is that of Substrate nodes. */
export function nodeResponse(id: string, kind: "result" | "error", body: Body): Body {
  return wrap(`{"jsonrpc":"2.0","id":${id},"${kind}":`, body, "}");
}
