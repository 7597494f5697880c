/** The routes of the views Pipeline and Plugins: the compiled routes, the plugins, the file and the stores. */
import { sendJson } from "./answer.ts";
import type { DashboardDeps } from "./deps.ts";
import { pipelineFile } from "./pipeline-file.ts";
import { pluginsView } from "./plugins-view.ts";
import type { AddRoute } from "./route.ts";
import { routesView } from "./routes-view.ts";
import { storeStates } from "./stores.ts";

export function pipelineRoutes(add: AddRoute, deps: DashboardDeps): void {
  add("GET", "routes", (_viewer, _, reply) => sendJson(reply, 200, routesView(deps)), "platform");
  add("GET", "plugins", (_viewer, _, reply) => sendJson(reply, 200, pluginsView(deps)), "platform");
  add(
    "GET",
    "pipeline-file",
    async (_viewer, _, reply) => sendJson(reply, 200, await pipelineFile(deps)),
    "platform",
  );
  add(
    "GET",
    "stores",
    async (_viewer, _, reply) => sendJson(reply, 200, { stores: await storeStates(deps.store) }),
    "platform",
  );
}
