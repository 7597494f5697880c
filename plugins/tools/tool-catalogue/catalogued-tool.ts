import type { Counter, Histogram, HookCounts, Metrics } from "sluice-gateway/plugin";
import type { CatalogueEntry, Tool } from "sluice-gateway/services";
import { withToken } from "./confirmation.ts";
import { stableJson, isObject, jsonExcess } from "sluice-gateway/internal/toolkit";
import {
  compileSchema,
  type InputCheck,
  type InputCompiler,
  rootProblem,
  type Violation,
} from "./input-schema.ts";
import { BrokenContract } from "./result-checks.ts";

/** The parts that are created from the definition of a tool: everything except its functions. */
export interface CompiledTool {
  readonly entry: CatalogueEntry;
  readonly check: InputCheck;
  /** Undefined if the tool has no output schema. */
  readonly checkOutput: InputCheck | undefined;
}

export interface CataloguedTool extends CompiledTool {
  readonly tool: Tool;
  readonly metrics: ToolMetrics;
  readonly counts: HookCounts;
  /** Returns the price in milli-CU. `input`: valid input. Throws for an invalid price, which is a bug of the tool. */
  costOf(input: unknown): number;
}

const toolName = /^[A-Za-z][A-Za-z0-9_]{0,63}$/;

/**
 * Returns equal texts for equal definitions. Throws if a member throws, or if the definition cannot be represented as
 * JSON.
 */
export function definitionOf(tool: Tool): string {
  const { name, description, inputSchema, outputSchema, annotations, write, capability } = tool;
  const price = estimateOf(tool);
  const varies = typeof tool.price !== "number";
  return stableJson([
    [name, description, inputSchema, outputSchema ?? null, annotations ?? null],
    [price, varies, write === true, capability ?? null, tool.hasOwnValidation === true],
  ]);
}

/** Returns the end of a sentence if the definition has a problem. Throws if a member of the tool throws. */
export function compileTool(tool: Tool): CompiledTool | string {
  const { name, outputSchema, hasOwnValidation = false } = tool;
  if (typeof name !== "string" || !toolName.test(name)) {
    return "has an invalid name; expected a letter and up to 63 letters, digits and underscores";
  }
  const write = tool.write === true;
  if (write && hasOwnValidation) return "is a write tool but has hasOwnValidation: true";
  const problem = hasOwnValidation ? definitionProblem(tool) : undefined;
  if (problem !== undefined) return problem;
  const compile = hasOwnValidation ? objectCheck : compileSchema;
  const inputSchema = write ? withToken(tool.inputSchema) : tool.inputSchema;
  const check = compile(inputSchema);
  if (typeof check === "string") return check;
  const checkOutput = outputSchema === undefined ? undefined : compile(outputSchema, "output");
  if (typeof checkOutput === "string") return checkOutput;
  if (write && tool.annotations?.readOnlyHint === true) {
    return "is a write tool but has readOnlyHint: true";
  }
  const estimatedCUMilli = estimateOf(tool);
  if (!isAmount(estimatedCUMilli)) return "has a price that is not a whole number of milli-CU";
  const entry: CatalogueEntry = {
    name,
    description: tool.description,
    inputSchema,
    ...(outputSchema !== undefined && { outputSchema }),
    estimatedCUMilli,
    estimatedCUVaries: typeof tool.price !== "number",
    annotations: tool.annotations ?? {},
    write,
    capability: tool.capability,
  };
  return { entry, check, checkOutput };
}

export function catalogued(
  tool: Tool,
  compiled: CompiledTool,
  { metrics, counts }: { readonly metrics: Metrics; readonly counts: HookCounts },
): CataloguedTool {
  const { price, name } = tool;
  const { estimatedCUMilli } = compiled.entry;
  return {
    ...compiled,
    tool,
    metrics: toolMetrics(metrics, name),
    counts,
    costOf: typeof price === "number" ? () => estimatedCUMilli : (input) => amount(price.of(input)),
  };
}

function estimateOf({ price }: Tool): number {
  return typeof price === "number" ? price : price.estimateMilliCu;
}

function isAmount(milli: unknown): milli is number {
  return Number.isSafeInteger(milli) && Number(milli) >= 0;
}

function amount(milli: unknown): number {
  if (isAmount(milli)) return milli;
  throw new BrokenContract(`invalid price: ${String(milli)} milli-CU`);
}

/** Only names of catalogued tools are label values, never text from clients. */
interface ToolMetrics {
  readonly succeeded: Counter;
  readonly seconds: Histogram;
  failed(code: string): void;
}

const secondsBuckets = [0.001, 0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 30];

function toolMetrics(metrics: Metrics, tool: string): ToolMetrics {
  const calls = metrics.counter("sluice_tool_calls_total", "Tool calls by tool and result.", [
    "tool",
    "code",
  ]);
  return {
    succeeded: calls.with({ tool, code: "ok" }),
    seconds: metrics
      .histogram(
        "sluice_tool_seconds",
        "Duration of the tool calls that succeeded.",
        secondsBuckets,
        ["tool"],
      )
      .with({ tool }),
    // Codes come from the catalogue of errors, a small, fixed set.
    failed: (code) => calls.with({ tool, code }).add(1),
  };
}

/** Maximum length as JSON, in UTF-16 code units. */
const maxDefinitionChars = 65_536;

const notAnObject: readonly Violation[] = [{ path: "", reason: "must be object" }];

/** A larger definition would be too expensive to show in lists and documents. */
function definitionProblem(tool: Tool): string | undefined {
  const { description, inputSchema, outputSchema, annotations } = tool;
  const text = JSON.stringify([description, inputSchema, outputSchema, annotations]);
  if (text.length > maxDefinitionChars) {
    return `has a definition of ${text.length} characters, expected at most ${maxDefinitionChars}`;
  }
  return jsonExcess(text) === undefined ? undefined : "has a definition that is nested too deeply";
}

/**
 * Accepts every object, whatever the schema says. Used for tools with `hasOwnValidation`: their schemas are shown, but
 * neither compiled nor applied, because they may come from another server, and checking a hostile pattern can take
 * hours.
 */
const objectCheck: InputCompiler = (schema, what = "input") =>
  rootProblem(schema, what) ?? ((value) => (isObject(value) ? [] : notAnObject));
