/** The catalogue of all tools of the deployment. All calls of tools go through it. */
import type {
  Claims,
  Clock,
  HookCounts,
  Log,
  Metrics,
  Seal,
  ToolsHooks,
} from "sluice-gateway/plugin";
import {
  toolFailure,
  type CatalogueEntry,
  type Prompt,
  type Resource,
  type ResourceTemplate,
  type Tool,
  type ToolCaller,
  type ToolOutcome,
  type Tools,
} from "sluice-gateway/services";
import type { CataloguedTool } from "./catalogued-tool.ts";
import { createConfirmations, withToken } from "./confirmation.ts";
import { counted } from "./counted-document.ts";
import { createSchemaCompiler } from "./input-schema.ts";
import type { Nesting, NestingTools } from "./nesting.ts";
import { definitionProblem, objectCheck } from "./own-validation.ts";
import { BrokenContract } from "./result-checks.ts";
import { toolMetrics } from "./tool-metrics.ts";
import { ToolRun, type RunParts } from "./tool-run.ts";

/** Dependencies of the catalogue. */
export interface CatalogueParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly seal: Seal;
  readonly claims: Pick<Claims, "claim" | "now">;
}

export interface Catalogue extends Tools {
  /**
   * Adds the tools, resources and prompts of one plugin. Returns one sentence per problem; what is invalid is skipped.
   * Later changes of the plugin's tools are found when the catalogue is read. `counts`: returns the counts of the plugin
   * for its calls of one kind.
   */
  add(hooks: ToolsHooks, counts: (hook: string) => HookCounts): string[];
}

/** A plugin with its tools. `given`: the array that the plugin returned last. */
interface ToolSource {
  readonly hooks: ToolsHooks;
  readonly counts: (hook: string) => HookCounts;
  given: ToolsHooks["tools"];
  catalogued: readonly CataloguedTool[];
}

const notNested: Nesting = { depth: 0, stop: undefined };

/** Maximum depth of nested calls. It is higher than shipped tools need, and ends a tool that calls itself. */
const maxDepth = 4;

const unknownTool = toolFailure("GATEWAY_TOOL_NOT_FOUND", "unknown tool");
const tooDeep = toolFailure("GATEWAY_TOOL_EXECUTION_ERROR", "tools call one another too deeply");

const toolName = /^[A-Za-z][A-Za-z0-9_]{0,63}$/;

export function createCatalogue(parts: CatalogueParts): Catalogue {
  return new LiveCatalogue(parts);
}

class LiveCatalogue implements Catalogue, NestingTools {
  readonly resources: Resource[] = [];
  readonly resourceTemplates: ResourceTemplate[] = [];
  readonly prompts: Prompt[] = [];
  readonly #uris = new Set<string>();
  readonly #sources: ToolSource[] = [];
  readonly #tools = new Map<string, CataloguedTool>();
  #list: readonly CatalogueEntry[] = [];
  readonly #compile = createSchemaCompiler();
  readonly #metrics: Metrics;
  readonly #parts: RunParts;

  constructor(parts: CatalogueParts) {
    this.#metrics = parts.metrics;
    const { clock, log } = parts;
    this.#parts = { clock, log, tools: this, confirmations: createConfirmations(parts) };
  }

  add(hooks: ToolsHooks, counts: (hook: string) => HookCounts): string[] {
    const { tools, resources = [], resourceTemplates = [], prompts = [] } = hooks;
    const source: ToolSource = { hooks, counts, given: [], catalogued: [] };
    this.#sources.push(source);
    const problems = this.#replaceTools(source, tools);
    const note = (what: string, problem: string | undefined): void => {
      if (problem !== undefined) problems.push(`${what} ${problem}`);
    };
    for (const resource of resources) {
      note(`resource "${resource.uri}"`, this.#addResource(resource, counts));
    }
    for (const prompt of prompts) note(`prompt "${prompt.name}"`, this.#addPrompt(prompt, counts));
    for (const template of resourceTemplates) {
      this.resourceTemplates.push(counted(template, "read", counts("resource")));
    }
    return problems;
  }

  get list(): readonly CatalogueEntry[] {
    this.#followChanges();
    return this.#list;
  }

  /** Replaces the tools of the plugins that return another array than before. */
  #followChanges(): void {
    for (const source of this.#sources) {
      const { hooks } = source;
      try {
        const { tools } = hooks;
        if (tools === source.given) continue;
        const onInvalid =
          hooks.onInvalid ?? ((problem) => this.#parts.log.warn({ problem }, "a tool was skipped"));
        for (const problem of this.#replaceTools(source, tools)) onInvalid(problem);
      } catch (error) {
        source.counts("tool").failed("throw");
        this.#parts.log.error({ err: error }, "the changed tools of a plugin cannot be used");
      }
    }
  }

  /** Returns one sentence per problem. The name of a tool of another plugin cannot be used. */
  #replaceTools(source: ToolSource, tools: ToolsHooks["tools"]): string[] {
    source.given = tools;
    const before = new Map<unknown, CataloguedTool>();
    for (const catalogued of source.catalogued) {
      before.set(catalogued.tool, catalogued);
      this.#tools.delete(catalogued.tool.name);
    }
    const problems: string[] = [];
    const catalogued: CataloguedTool[] = [];
    try {
      for (const tool of tools) {
        const made = this.#made(source, tool, before.get(tool));
        if (typeof made === "string") problems.push(`tool "${tool.name}" ${made}`);
        else {
          this.#tools.set(tool.name, made);
          catalogued.push(made);
        }
      }
    } finally {
      source.catalogued = catalogued;
      this.#list = this.#sources.flatMap((each) => each.catalogued.map(({ entry }) => entry));
    }
    return problems;
  }

  /** Returns the tool, or a text with its problem. `before`: the same tool, if it was in the catalogue already. */
  #made(
    source: ToolSource,
    tool: ToolsHooks["tools"][number],
    before: CataloguedTool | undefined,
  ): CataloguedTool | string {
    try {
      // The schema or the tool itself validates the input of each call, which justifies the cast.
      const catalogued = tool as unknown as Tool;
      return (
        this.#problemOf(tool.name) ?? before ?? this.#catalogue(catalogued, source.counts("tool"))
      );
    } catch (error) {
      source.counts("tool").failed("throw");
      return `cannot be used: ${error instanceof Error ? error.message : "it throws"}`;
    }
  }

  #problemOf(name: string): string | undefined {
    if (!toolName.test(name))
      return "has an invalid name; expected a letter and up to 63 letters, digits and underscores";
    return this.#tools.has(name) ? "already exists" : undefined;
  }

  #addResource(resource: Resource, counts: (hook: string) => HookCounts): string | undefined {
    const { uri } = resource;
    if (!URL.canParse(uri) || uri.includes("#")) return "is not an absolute URI without a fragment";
    if (this.#uris.has(uri)) return "already exists";
    this.#uris.add(uri);
    this.resources.push(counted(resource, "read", counts("resource")));
    return undefined;
  }

  #addPrompt(prompt: Prompt, counts: (hook: string) => HookCounts): string | undefined {
    if (this.prompts.some((other) => other.name === prompt.name)) return "already exists";
    this.prompts.push(counted(prompt, "get", counts("prompt")));
    return undefined;
  }

  /** Returns the tool with its compiled schemas, or a text with the problem of the tool. */
  #catalogue(tool: Tool, counts: HookCounts): CataloguedTool | string {
    const write = tool.write === true;
    const { outputSchema, hasOwnValidation = false } = tool;
    if (write && hasOwnValidation) return "is a write tool but has hasOwnValidation: true";
    const problem = hasOwnValidation ? definitionProblem(tool) : undefined;
    if (problem !== undefined) return problem;
    const compile = hasOwnValidation ? objectCheck : this.#compile;
    const inputSchema = write ? withToken(tool.inputSchema) : tool.inputSchema;
    const check = compile(inputSchema);
    if (typeof check === "string") return check;
    const checkOutput = outputSchema === undefined ? undefined : compile(outputSchema, "output");
    if (typeof checkOutput === "string") return checkOutput;
    if (write && tool.annotations?.readOnlyHint === true) {
      return "is a write tool but has readOnlyHint: true";
    }
    const { price } = tool;
    const varies = typeof price !== "number";
    const estimatedCUMilli = varies ? price.estimateMilliCu : price;
    if (!isAmount(estimatedCUMilli)) return "has a price that is not a whole number of milli-CU";
    const entry: CatalogueEntry = {
      name: tool.name,
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
      metrics: toolMetrics(this.#metrics, tool.name),
      counts,
      costOf: varies ? (input) => amount(price.of(input)) : () => estimatedCUMilli,
    };
  }

  entry(name: string): CatalogueEntry | undefined {
    this.#followChanges();
    return this.#tools.get(name)?.entry;
  }

  call(name: string, input: unknown, caller: ToolCaller): ToolOutcome | Promise<ToolOutcome> {
    return this.callAt(notNested, name, input, caller);
  }

  callAt(
    nesting: Nesting,
    name: string,
    input: unknown,
    caller: ToolCaller,
  ): ToolOutcome | Promise<ToolOutcome> {
    this.#followChanges();
    const found = this.#tools.get(name);
    if (found === undefined || nesting.depth > maxDepth) {
      const failure = found === undefined ? unknownTool : tooDeep;
      return { ...failure, tool: name, latencyMs: 0 };
    }
    return new ToolRun(found, caller, nesting, this.#parts).run(input);
  }
}

function isAmount(milli: unknown): milli is number {
  return Number.isSafeInteger(milli) && Number(milli) >= 0;
}

function amount(milli: unknown): number {
  if (isAmount(milli)) return milli;
  throw new BrokenContract(`invalid price: ${String(milli)} milli-CU`);
}
