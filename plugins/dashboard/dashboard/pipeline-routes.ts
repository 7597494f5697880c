/** The routes of the view Pipeline: the compiled routes, the file and the stores. */
import { sendJson } from "./answer.ts";
import type { DashboardParts } from "./parts.ts";
import { pipelineFile } from "./pipeline-file.ts";
import type { AddRoute } from "./route.ts";
import { routesView } from "./routes-view.ts";
import { storeStates } from "./stores.ts";

export function pipelineRoutes(add: AddRoute, parts: DashboardParts): void {
  add("GET", "routes", (_viewer, _, reply) => sendJson(reply, 200, routesView(parts)), "platform");
  add(
    "GET",
    "pipeline-file",
    async (_viewer, _, reply) => sendJson(reply, 200, await pipelineFile(parts)),
    "platform",
  );
  add(
    "GET",
    "stores",
    async (_viewer, _, reply) => sendJson(reply, 200, { stores: await storeStates(parts.store) }),
    "platform",
  );
}
