/** The meaning of the codes of reported calls. */
import { callFailures, type CallFailureCode } from "./contract/called.ts";
import { gatewayErrors } from "./errors.ts";

const upstreamFailures: ReadonlySet<string> = new Set([
  "NODE_ERROR",
  "UPSTREAM_ERROR",
  "GATEWAY_INTERNAL_ERROR",
  "GATEWAY_SERVICE_UNAVAILABLE",
  "GATEWAY_TOOL_EXECUTION_ERROR",
]);

/** Returns true for a call that was tried and failed, false for one that was refused. */
export function isFailure(code: string): boolean {
  return upstreamFailures.has(code);
}

/** Returns the reason for a code in words, or the code itself if it is not known. */
export function reasonOf(code: string): string {
  // Both catalogues are objects of this package, and the lookup ignores inherited members.
  if (Object.hasOwn(callFailures, code)) return callFailures[code as CallFailureCode];
  if (Object.hasOwn(gatewayErrors, code))
    return gatewayErrors[code as keyof typeof gatewayErrors].message;
  return code;
}
