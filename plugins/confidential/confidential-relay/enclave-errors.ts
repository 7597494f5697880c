import type { StreamCode } from "../protocol/fault.ts";

/**
 * `code`: the code of the enclave's error frame. An enclave does not know the client's key and credit, so codes about
 * them are replaced.
 */
export function codeForClient(code: StreamCode | undefined): StreamCode {
  return code === undefined || code === "UNAUTHORIZED" || code === "INSUFFICIENT_BALANCE"
    ? "UPSTREAM_FAILED"
    : code;
}

const clientErrorCodes: ReadonlySet<StreamCode> = new Set([
  "BAD_FRAME",
  "REPLAY",
  "LIMIT_EXCEEDED",
  "RATE_LIMITED",
  "TIMEOUT",
]);

/**
 * An enclave sends these codes for a mistake of the client. Such an error does not count against the worker: otherwise
 * a client could make the gateway eject every worker.
 */
export function isClientError(code: StreamCode): boolean {
  return clientErrorCodes.has(code);
}
