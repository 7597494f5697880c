/** The documentation of the handshake. */
import type { Operation } from "sluice-gateway/plugin";

/** The subprotocol that is selected if a client offers any, because browsers require one then. */
export const subprotocol = "ledger.v1";

export const operation: Operation = {
  summary: "Call the node over WebSocket",
  description:
    "Each message is a JSON-RPC 2.0 call or batch, as over HTTP. Each call that the node answers is charged, and so are subscriptions and their notifications. The caller needs a key with `ledger:read`, or a ticket of such a key.",
  headers: {
    type: "object",
    properties: {
      "sec-websocket-protocol": {
        description: `Optional. A page that has a ticket instead of a key offers ${subprotocol} and ledger.auth.<ticket in base64url>.`,
        type: "string",
        examples: [subprotocol],
      },
    },
  },
  refusals: [
    {
      code: "GATEWAY_PERMISSION_DENIED",
      description: "The key lacks the capability `ledger:read`, or the ticket is for a model.",
    },
    { code: "GATEWAY_RATE_LIMITED", description: "The key has too many open connections." },
  ],
};
