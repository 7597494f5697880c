/** The WebSocket of `ws`, which reports why a gateway has refused a connection. */
import { messageLimits } from "sluice-gateway/internal/http";
import { WebSocket as NodeWebSocket } from "ws";
import { ConfidentialError, type ConfidentialCode } from "../client/client.ts";
import type { OpenWebSocket } from "../client/socket.ts";
import { maxTextBytes } from "../protocol/limits.ts";

const codes: Readonly<Record<number, ConfidentialCode>> = {
  401: "UNAUTHORIZED",
  402: "INSUFFICIENT_BALANCE",
  403: "UNAUTHORIZED",
  429: "RATE_LIMITED",
};

export const openNodeWebSocket: OpenWebSocket = ({ url, protocols, headers = {} }, refuse) => {
  const socket = new NodeWebSocket(url, protocols, {
    headers,
    followRedirects: false,
    // Compression does not make ciphertext shorter.
    perMessageDeflate: false,
    ...messageLimits(maxTextBytes),
  });
  socket.on("unexpected-response", (_request, { statusCode: status = 0, headers: answered }) => {
    const code = codes[status] ?? (status >= 500 ? "UPSTREAM_FAILED" : "CONNECTION_FAILED");
    const wait = answered["retry-after"] ?? "";
    // The same limits as for the waits of other workers (AttemptFailure).
    const retryAfterSeconds = /^\d{1,9}$/.test(wait)
      ? Math.min(300, Math.max(1, Number(wait)))
      : undefined;
    const message = `the gateway refused the connection with status ${status}`;
    refuse(new ConfidentialError(code, message, { retryAfterSeconds }));
    // It emits `error` and `close`.
    socket.terminate();
  });
  // It has the members of the global WebSocket that a session uses, but its types have names of their own.
  return socket as unknown as WebSocket;
};
