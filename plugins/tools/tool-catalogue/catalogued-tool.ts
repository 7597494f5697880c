/** A tool as the catalogue keeps it: checked, with its compiled schemas and its entry. */
import type { HookCounts, Metrics } from "sluice-gateway/plugin";
import type { CatalogueEntry, Tool } from "sluice-gateway/services";
import { withToken } from "./confirmation.ts";
import type { InputCheck, InputCompiler } from "./input-schema.ts";
import { BrokenContract } from "./result-checks.ts";
import { toolMetrics, type ToolMetrics } from "./tool-metrics.ts";

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

/** What is needed to make a tool of one plugin. */
export interface ToolParts {
  readonly metrics: Metrics;
  readonly compile: InputCompiler;
  readonly counts: HookCounts;
}

const toolName = /^[A-Za-z][A-Za-z0-9_]{0,63}$/;

/** Returns the tool, or the end of a sentence with its problem. Throws if the tool does. */
export function catalogued(
  tool: Tool,
  { metrics, compile, counts }: ToolParts,
): CataloguedTool | string {
  const { name, outputSchema, price } = tool;
  if (typeof name !== "string" || !toolName.test(name)) {
    return "has an invalid name; expected a letter and up to 63 letters, digits and underscores";
  }
  const write = tool.write === true;
  const inputSchema = write ? withToken(tool.inputSchema) : tool.inputSchema;
  const check = compile(inputSchema);
  if (typeof check === "string") return check;
  const checkOutput = outputSchema === undefined ? undefined : compile(outputSchema, "output");
  if (typeof checkOutput === "string") return checkOutput;
  if (write && tool.annotations?.readOnlyHint === true) {
    return "is a write tool but has readOnlyHint: true";
  }
  const varies = typeof price !== "number";
  const estimatedCUMilli = varies ? price.estimateMilliCu : price;
  if (!isAmount(estimatedCUMilli)) return "has a price that is not a whole number of milli-CU";
  const entry: CatalogueEntry = {
    name,
    description: tool.description,
    inputSchema,
    ...(outputSchema !== undefined && { outputSchema }),
    estimatedCUMilli,
    estimatedCUVaries: varies,
    annotations: tool.annotations ?? {},
    write,
    capability: tool.capability,
  };
  return {
    tool,
    entry,
    check,
    checkOutput,
    metrics: toolMetrics(metrics, name),
    counts,
    costOf: varies ? (input) => amount(price.of(input)) : () => estimatedCUMilli,
  };
}

function isAmount(milli: unknown): milli is number {
  return Number.isSafeInteger(milli) && Number(milli) >= 0;
}

function amount(milli: unknown): number {
  if (isAmount(milli)) return milli;
  throw new BrokenContract(`invalid price: ${String(milli)} milli-CU`);
}
