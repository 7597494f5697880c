/**
 * The parts of JSON-RPC that `tool-rpc` and `mcp` share. Ids and results are inserted as text, so nothing is parsed or
 * serialized twice.
 */
import type { GatewayCode } from "sluice-gateway/plugin";

export interface RpcFailure {
  readonly code: number;
  readonly message: string;
  readonly data?: object;
}

/** Maximum number of items of an array (decisions.md sections 4 and 6). */
export const maxItems = 20;
/** Maximum length of the answers of an array (decisions.md section 5). After it is reached, no further item is run. */
export const maxArrayChars = 32 * 1024 * 1024;
export const notRunMessage = "not run: the responses of this array exceed the size limit";
export const tooLargeMessage = "the responses are too large together";

/** Failures of a call whose answer does not have HTTP status 200 (decisions.md section 7). */
export const confirmationStatus: Partial<Record<GatewayCode, number>> = {
  GATEWAY_CONFIRMATION_REQUIRED: 202,
  GATEWAY_CONFIRMATION_EXPIRED: 410,
};

/** `id` and `result`: JSON. */
export function resultText(id: string, result: string): string {
  return `{"jsonrpc":"2.0","id":${id},"result":${result}}`;
}

export function errorText(id: string, { code, message, data }: RpcFailure): string {
  return `{"jsonrpc":"2.0","id":${id},"error":${JSON.stringify({ code, message, data })}}`;
}
