/** JSON-RPC error numbers (gateway.md, "JSON-RPC numeric codes on /rpc"; decisions.md section 6). */
import type { GatewayCode } from "sluice-gateway/plugin";

export const codes = {
  parseError: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internalError: -32603,
  permissionDenied: -32001,
  confirmationRequired: -32002,
  confirmationExpired: -32003,
  notFound: -32004,
  creditLimit: -32005,
} as const;

const codesOfFailures: Partial<Record<GatewayCode, number>> = {
  GATEWAY_TOOL_NOT_FOUND: codes.methodNotFound,
  GATEWAY_INVALID_PARAMS: codes.invalidParams,
  GATEWAY_SCHEMA_VIOLATION: codes.invalidParams,
  GATEWAY_BATCH_TOO_LARGE: codes.invalidParams,
  GATEWAY_WRITE_IN_BATCH: codes.invalidParams,
  GATEWAY_PERMISSION_DENIED: codes.permissionDenied,
  GATEWAY_CONFIRMATION_REQUIRED: codes.confirmationRequired,
  GATEWAY_CONFIRMATION_EXPIRED: codes.confirmationExpired,
  GATEWAY_NOT_FOUND: codes.notFound,
  GATEWAY_CU_LIMIT_EXCEEDED: codes.creditLimit,
};

/** Failures without a number are server errors or failed executions. */
export function rpcCodeOf(failure: GatewayCode): number {
  return codesOfFailures[failure] ?? codes.internalError;
}

export const invalidRequest = { code: codes.invalidRequest, message: "Invalid Request" };
