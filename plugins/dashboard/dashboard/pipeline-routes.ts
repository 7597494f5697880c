/** The routes of the views Pipeline and Plugins: the compiled routes, the plugins, the file and the stores. */
import { sendJson } from "./answer.ts";
import type { DashboardParts } from "./parts.ts";
import { pipelineFile } from "./pipeline-file.ts";
import { pluginsView } from "./plugins-view.ts";
import type { AddRoute } from "./route.ts";
import { routesView } from "./routes-view.ts";
import { storeStates } from "./stores.ts";

export function pipelineRoutes(add: AddRoute, parts: DashboardParts): void {
  add("GET", "routes", (_viewer, _, reply) => sendJson(reply, 200, routesView(parts)), "platform");
  add(
    "GET",
    "plugins",
    (_viewer, _, reply) => sendJson(reply, 200, pluginsView(parts)),
    "platform",
  );
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
