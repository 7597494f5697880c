/** Explains a request like /explain on the same listener, for users who are signed in. */
import { isObject } from "sluice-gateway/internal/toolkit";
import { sendJson, sendRefusal } from "./answer.ts";
import { queryOf } from "./input.ts";
import type { DashboardDeps } from "./deps.ts";
import type { AddRoute } from "./route.ts";

/** The administrator of a workspace gets only the requests of its keys, without the names of gateways and backends. */
export function explainRoute(add: AddRoute, { gateway }: DashboardDeps): void {
  add("GET", "explain", async ({ only }, request, reply) => {
    const id = queryOf(request.url, ["id"])?.["id"];
    if (id === undefined) {
      return sendRefusal(reply, "GATEWAY_INVALID_PARAMS", {
        message: "missing query parameter `id`",
      });
    }
    const { exchanges, missing } = await gateway.running().explainEverywhere(id);
    // Clients choose the ids of their requests, so requests of different workspaces may have the same id.
    const shown = only === undefined ? exchanges : exchanges.flatMap((each) => ownOf(each, only));
    if (shown.length === 0) return sendRefusal(reply, "GATEWAY_NOT_FOUND");
    return sendJson(reply, 200, {
      exchanges: shown,
      ...(only === undefined && { missing }),
    });
  });
}

function ownOf(exchange: object, workspaceId: string): object[] {
  if (!isObject(exchange) || exchange["workspace_id"] !== workspaceId) return [];
  const { replica: _, upstream_failure: __, ...shown } = exchange;
  return [shown];
}
