/**
 * Limits how often the administrators of a workspace use a route together, because its work is shared by all
 * workspaces. Users who may see the whole deployment are not limited.
 */
import type { AttemptLimiter } from "sluice-gateway/internal/limits";
import { sendRefusal } from "./answer.ts";
import { rejection } from "./rates.ts";
import type { AddRoute } from "./route.ts";

export function limited(add: AddRoute, limiter: AttemptLimiter, message: string): AddRoute {
  return (method, path, handler, who) => {
    const limitedHandler: typeof handler = async (viewer, request, reply) => {
      const { only } = viewer;
      const rejected = only === undefined ? undefined : await rejection(limiter, only);
      if (rejected === undefined) return handler(viewer, request, reply);
      const headers = ["retry-after", String(Math.ceil(rejected.msBeforeNext / 1000))];
      return sendRefusal(reply, "GATEWAY_RATE_LIMITED", { message, headers });
    };
    add(method, path, limitedHandler, who);
  };
}
