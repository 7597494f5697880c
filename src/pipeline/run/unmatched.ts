/** The end of the `unmatched` list: 405 where the path exists with other methods, else 404. */
import { refuse } from "../../errors.ts";
import type { Exchange, SurfaceHooks } from "../../plugin.ts";
import { LiveExchange } from "./exchange.ts";

export const unmatchedSurface: SurfaceHooks = {
  answer(x: Exchange) {
    const allow = x instanceof LiveExchange ? x.arrival.allow : undefined;
    if (allow === undefined) return refuse("GATEWAY_NOT_FOUND");
    return refuse("GATEWAY_INVALID_PARAMS", {
      status: 405,
      message: "method not allowed",
      headers: ["allow", allow],
    });
  },
};
