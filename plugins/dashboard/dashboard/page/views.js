/** The views are in the order of the navigation. The first one is opened by default. */
import { ChangesView } from "./views/changes.js";
import { HealthView } from "./views/health.js";
import { KeysView } from "./views/keys.js";
import { LiveView } from "./views/live.js";
import { PipelineView } from "./views/pipeline.js";
import { PluginsView } from "./views/plugins.js";
import { SpendView } from "./views/spend.js";
import { PlaygroundView } from "./views/playground.js";
import { WorkspacesView } from "./views/workspaces.js";

/**
 * `name`: the first part of the address. `view`: gets `{ session }`. `platform`: true if only users who may see the
 * whole deployment can open it. `changes`: true if it is useless to users who may only read.
 */
export const views = [
  { name: "live", title: "Live", view: LiveView, platform: false },
  { name: "spend", title: "Spend", view: SpendView, platform: false },
  { name: "keys", title: "Keys", view: KeysView, platform: false },
  { name: "workspaces", title: "Workspaces", view: WorkspacesView, platform: true },
  { name: "changes", title: "Changes", view: ChangesView, platform: false },
  { name: "health", title: "Health", view: HealthView, platform: true },
  { name: "pipeline", title: "Pipeline", view: PipelineView, platform: true },
  { name: "plugins", title: "Plugins", view: PluginsView, platform: true },
  { name: "playground", title: "Playground", view: PlaygroundView, platform: true, changes: true },
];
