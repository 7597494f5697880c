/** How a route of the dashboard's API is added: who may reach it, and what a store that fails means. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { StoreError } from "../../../src/store/store-error.ts";
import { sendRefusal } from "../../../src/http/admin-answer.ts";
import type { DashboardParts } from "./parts.ts";
import type { Sessions, Viewer } from "./session.ts";

/** What a route answers; `viewer` is who asks. */
export type Handler = (
  viewer: Viewer,
  request: FastifyRequest,
  reply: FastifyReply,
) => FastifyReply | Promise<FastifyReply>;

/** Adds a route below /dashboard/api that only who is signed in reaches. `platform`: only with `platform:admin`. */
export type AddRoute = (
  method: "GET" | "POST",
  path: string,
  handler: Handler,
  who?: "platform",
) => void;

export function signedInRoutes(
  api: FastifyInstance,
  parts: DashboardParts,
  sessions: Sessions,
): AddRoute {
  return (method, path, handler, who) => {
    api.route({
      method,
      url: `/${path}`,
      handler: (request, reply) =>
        stored(parts, reply, () => {
          const viewer = sessions.viewer(request);
          if (viewer === undefined) {
            return sendRefusal(reply, "GATEWAY_UNAUTHORIZED", { message: "not signed in" });
          }
          if (who === "platform" && viewer.only !== undefined) {
            return sendRefusal(reply, "GATEWAY_PERMISSION_DENIED");
          }
          return handler(viewer, request, reply);
        }),
    });
  };
}

/** Runs what reads or writes the store: one that cannot be used now is a 503. */
export async function stored(
  { log }: Pick<DashboardParts, "log">,
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
