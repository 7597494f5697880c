import type { HookCounts } from "sluice-gateway/plugin";
import type { CatalogueEntry, Tool } from "sluice-gateway/services";
import type { InputCheck } from "./input-schema.ts";
import type { ToolMetrics } from "./tool-metrics.ts";

/** A tool with its compiled schema and its price. */
export interface CataloguedTool {
  readonly tool: Tool;
  readonly entry: CatalogueEntry;
  readonly check: InputCheck;
  /** Undefined if the tool has no output schema. */
  readonly checkOutput: InputCheck | undefined;
  readonly metrics: ToolMetrics;
  /** The counts of all tools of the plugin that has added the tool. */
  readonly counts: HookCounts;
  /**
   * Returns the price of a call with this (valid) input in milli-CU. Throws for an invalid price, which is a bug of the
   * tool.
   */
  costOf(input: unknown): number;
}
