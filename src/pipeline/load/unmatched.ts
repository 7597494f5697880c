/**
 * The end of the `unmatched` list: 405 where the path exists with other methods, else 404. A WebSocket handshake gets 426
 * instead of 405, because clients then use HTTP at once, and try again after any other status.
 */
import { refuse } from "../../base/errors.ts";
import type { Exchange, SurfaceHooks } from "../../plugin.ts";
import { LiveExchange } from "../run/exchange.ts";

export const unmatchedSurface: SurfaceHooks = {
  answer(x: Exchange) {
    const allow = x instanceof LiveExchange ? x.arrival.allow : undefined;
    if (allow === undefined) return refuse("GATEWAY_NOT_FOUND");
    if (x.request.headers["upgrade"]?.toLowerCase() === "websocket") {
      return refuse("GATEWAY_INVALID_PARAMS", {
        status: 426,
        message: "this path does not accept WebSocket connections",
        headers: ["allow", allow, "upgrade", "HTTP/1.1"],
      });
    }
    return refuse("GATEWAY_INVALID_PARAMS", {
      status: 405,
      message: "method not allowed",
      headers: ["allow", allow],
    });
  },
};
