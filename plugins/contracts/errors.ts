/**
 * The modules' error codes that clients see. Their statuses and messages are in the module.ts of each module. The types
 * are here because other modules map and report these codes.
 */
import type { GatewayError } from "sluice-gateway/plugin";

declare module "sluice-gateway/plugin" {
  interface GatewayErrors {
    GATEWAY_BATCH_TOO_LARGE: GatewayError;
    GATEWAY_CONFIRMATION_EXPIRED: GatewayError;
    GATEWAY_CONFIRMATION_REQUIRED: GatewayError;
    GATEWAY_CU_LIMIT_EXCEEDED: GatewayError;
    GATEWAY_IDEMPOTENCY_KEY_MISMATCH: GatewayError;
    GATEWAY_INVALID_IDEMPOTENCY_KEY: GatewayError;
    GATEWAY_TOOL_EXECUTION_ERROR: GatewayError;
    GATEWAY_TOOL_NOT_FOUND: GatewayError;
    GATEWAY_WRITE_IN_BATCH: GatewayError;
  }
}
