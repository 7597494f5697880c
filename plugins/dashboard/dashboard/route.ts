import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { StoreError } from "sluice-gateway/internal/store";
import { sendRefusal } from "./answer.ts";
import type { DashboardDeps } from "./deps.ts";
import type { Sessions, Viewer } from "./session.ts";

export type Handler = (
  viewer: Viewer,
  request: FastifyRequest,
  reply: FastifyReply,
) => FastifyReply | Promise<FastifyReply>;

/**
 * Adds a route below /dashboard/api for users who are signed in. `platform`: only for users who may see the whole
 * deployment. A user who may only read is refused unless the method is GET.
 */
export type AddRoute = (
  method: "GET" | "POST",
  path: string,
  handler: Handler,
  who?: "platform",
) => void;

export function signedInRoutes(
  api: FastifyInstance,
  deps: DashboardDeps,
  sessions: Sessions,
): AddRoute {
  return (method, path, handler, who) => {
    api.route({
      method,
      url: `/${path}`,
      handler: (request, reply) =>
        stored(deps, reply, async () => {
          const viewer = await sessions.viewer(request);
          if (viewer === undefined) {
            return sendRefusal(reply, "GATEWAY_UNAUTHORIZED", { message: "not signed in" });
          }
          if (who === "platform" && viewer.only !== undefined) {
            return sendRefusal(reply, "GATEWAY_PERMISSION_DENIED");
          }
          if (method !== "GET" && !viewer.mayChange) {
            const message = "your role may read everything, but change nothing";
            return sendRefusal(reply, "GATEWAY_PERMISSION_DENIED", { message });
          }
          return handler(viewer, request, reply);
        }),
    });
  };
}

/** If the store cannot be used, the answer is 503. */
export async function stored(
  { log }: Pick<DashboardDeps, "log">,
  reply: FastifyReply,
  work: () => FastifyReply | Promise<FastifyReply>,
): Promise<FastifyReply> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    log.error({ err: error }, "dashboard: cannot use the store");
    return sendRefusal(reply, "GATEWAY_SERVICE_UNAVAILABLE");
  }
}
