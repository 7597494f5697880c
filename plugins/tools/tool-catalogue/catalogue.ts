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
  type ToolCaller,
  type ToolOutcome,
  type Tools,
} from "sluice-gateway/services";
import type { CataloguedTool } from "./catalogued-tool.ts";
import { createConfirmations } from "./confirmation.ts";
import type { Nesting, NestingTools } from "./call-context.ts";
import { ToolRun, type RunDeps } from "./tool-run.ts";
import { isSame, ToolSource, type SourceDeps } from "./tool-source.ts";

interface CatalogueDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly seal: Seal;
  readonly claims: Pick<Claims, "claim" | "now">;
}

const notNested: Nesting = { depth: 0, stop: undefined };

/** The shipped tools need less. The limit ends a tool that calls itself. */
const maxDepth = 4;

const unknownTool = toolFailure("GATEWAY_TOOL_NOT_FOUND", "unknown tool");
const tooDeep = toolFailure("GATEWAY_TOOL_EXECUTION_ERROR", "tools call one another too deeply");

export class Catalogue implements Tools, NestingTools {
  readonly resources: Resource[] = [];
  readonly resourceTemplates: ResourceTemplate[] = [];
  readonly prompts: Prompt[] = [];
  readonly #uris = new Set<string>();
  readonly #sources: ToolSource[] = [];
  #tools: ReadonlyMap<string, CataloguedTool> = new Map();
  #list: readonly CatalogueEntry[] = [];
  readonly #sourceDeps: Pick<SourceDeps, "log" | "metrics">;
  readonly #deps: RunDeps;

  constructor(deps: CatalogueDeps) {
    const { clock, log, metrics } = deps;
    this.#sourceDeps = { log, metrics };
    this.#deps = { clock, log, tools: this, confirmations: createConfirmations(deps) };
  }

  /**
   * Returns one sentence per problem; invalid entries are skipped. Later changes of the plugin's tools are found when
   * the catalogue is read. `counts`: returns the counts of the plugin for its calls of one kind. `plugin`: its name,
   * for the log.
   */
  add(hooks: ToolsHooks, counts: (hook: string) => HookCounts, plugin: string): string[] {
    const { resources = [], resourceTemplates = [], prompts = [] } = hooks;
    const source = new ToolSource({ ...this.#sourceDeps, plugin, hooks, counts });
    this.#sources.push(source);
    const unreadable = source.open();
    const problems = unreadable === undefined ? [] : [unreadable];
    problems.push(...(this.#computeTools().get(source) ?? []));
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

  #followChanges(): void {
    let hasChanged = false;
    for (const source of this.#sources) if (source.follow()) hasChanged = true;
    if (!hasChanged) return;
    for (const [source, problems] of this.#computeTools()) source.report(problems);
  }

  /**
   * The first tool with a name gets it, in the order of pipeline.yaml. Returns the problems of each plugin that are
   * new.
   */
  #computeTools(): ReadonlyMap<ToolSource, string[]> {
    const tools = new Map<string, CataloguedTool>();
    const problems = new Map(this.#sources.map((source) => [source, source.addTo(tools)]));
    this.#tools = tools;
    const list = Array.from(tools.values(), ({ entry }) => entry);
    // The array is kept if it is unchanged, because the surfaces recompute their results when they get another array.
    if (!isSame(list, this.#list)) this.#list = list;
    return problems;
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
    return new ToolRun(found, caller, nesting, this.#deps).run(input);
  }
}

/**
 * Each call of the method `name` is counted. The method still runs on the original object, which may have private
 * members.
 */
function counted<Name extends string, Document extends Readonly<Record<Name, Method>>>(
  document: Document,
  name: Name,
  counts: HookCounts,
): Document {
  const call = (...args: readonly never[]): unknown => counts.call(() => document[name](...args));
  // The copy has all members of the original.
  const copy = Object.create(Object.getPrototypeOf(document) as object) as Document;
  return Object.assign(copy, document, { [name]: call });
}

type Method = (...args: readonly never[]) => unknown;
