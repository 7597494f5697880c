/** The hooks that plugins of kind `tools` return, and how the service that collects them gets them. */
import type { HookCounts } from "./hook-counts.ts";
import type { Awaitable } from "./phase.ts";

/**
 * The result of `start` of a `tools` plugin. Its members `tools`, `resources`, `resourceTemplates` and `prompts` are
 * declared in `sluice-gateway/services`, because only the service `tool-catalogue` reads them.
 */
export interface ToolsHooks {
  stop?(): Awaitable<void>;
}

/** One entry of the service `tools`: a started plugin of kind `tools`. */
export interface StartedTools {
  /** Name of the plugin. */
  readonly plugin: string;
  readonly hooks: ToolsHooks;
  /**
   * Reports that the plugin has an invalid tool, resource or prompt. The fault is shown at the plugin's entry under
   * `tools:`, and pipeline.yaml is not loaded. Has an effect only while the caller starts.
   */
  readonly reportInvalid: (problem: string) => void;
  /** Returns the counts of one kind of calls, such as `tool`. The service that collects the tools adds to them. */
  readonly counts: (hook: string) => HookCounts;
}
