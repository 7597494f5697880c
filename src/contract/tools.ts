/** Plugins of kind `tools`. */
import type { Host } from "./host.ts";
import type { Manifest } from "./manifest.ts";
import type { Awaitable } from "./phase.ts";
import type { ToolsHooks } from "./started-tools.ts";

/** Adds tools, resources and prompts to the catalogue that all tool surfaces share. */
export interface ToolsPlugin<Options = Record<string, never>> extends Manifest<Options> {
  readonly kind: "tools";
  start(options: Options, host: Host): Awaitable<ToolsHooks>;
}

/** Declares a plugin that adds tools. Its manifest has no slots, because a tool gets a caller and not an exchange. */
export function defineTools<Options>(
  tools: Omit<ToolsPlugin<Options>, "kind" | "needs" | "wants" | "provides">,
): ToolsPlugin<Options> {
  return { kind: "tools", ...tools };
}
