import type { HookCounts, Log, Metrics, ToolsHooks } from "sluice-gateway/plugin";
import type { Tool } from "sluice-gateway/services";
import {
  catalogued,
  compileTool,
  definitionOf,
  type CataloguedTool,
  type CompiledTool,
} from "./catalogued-tool.ts";

/** `result`: the tool, or the problem of the tool itself (not counting duplicate names). */
interface Made {
  /** Undefined if the object cannot be read. */
  readonly definition: string | undefined;
  readonly compiled: CompiledTool | string;
  readonly result: CataloguedTool | { readonly problem: string };
}

/** Part of the warning about a plugin that creates new objects for each read. */
export const newObjectsWarning = "returns new tool objects each time its tools are read";

export interface SourceDeps {
  readonly plugin: string;
  readonly hooks: ToolsHooks;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly counts: (hook: string) => HookCounts;
}

export class ToolSource {
  readonly #deps: SourceDeps;
  #tools: readonly Tool[] = [];
  /** An object that is listed again is not read again. */
  readonly #made = new WeakMap<Tool, Made>();
  /** The tools by their definitions. An equal definition is neither checked nor compiled again. */
  #compiled: ReadonlyMap<string, CompiledTool | string> = new Map();
  #reported: ReadonlySet<string> = new Set();
  #unreadable: string | undefined;
  #isUnstable = false;

  constructor(deps: SourceDeps) {
    this.#deps = deps;
  }

  open(): string | undefined {
    try {
      this.#read();
      return undefined;
    } catch (error) {
      this.#countFailure();
      return `its tools cannot be read: ${messageOf(error)}`;
    }
  }

  /**
   * Returns whether the list has changed. If it cannot be read, the previous one is kept. This is logged once for each
   * reason, because the catalogue reads the list for every call.
   */
  follow(): boolean {
    try {
      const hasChanged = this.#read();
      this.#unreadable = undefined;
      return hasChanged;
    } catch (error) {
      const { plugin, log } = this.#deps;
      this.#countFailure();
      const reason = messageOf(error);
      if (reason !== this.#unreadable) {
        log.error({ err: error, plugin }, "the changed tools of a plugin cannot be used");
      }
      this.#unreadable = reason;
      return false;
    }
  }

  #read(): boolean {
    const { hooks } = this.#deps;
    const present = hooks.tools;
    if (isSame(present, this.#tools)) return false;
    const tools = listOf(present);
    // A second read shows whether the list has changed or the plugin creates new objects for each read.
    const isUnstable = !this.#isUnstable && !isSame(hooks.tools, tools);
    this.#tools = tools;
    if (isUnstable) this.#warnOfNewObjects();
    return true;
  }

  #warnOfNewObjects(): void {
    this.#isUnstable = true;
    const { plugin, log } = this.#deps;
    log.warn(
      { plugin },
      `a plugin ${newObjectsWarning}, so each call compares all of them with those before; return the same objects while the tools do not change`,
    );
  }

  /**
   * `tools`: those of the plugins before this one, whose names cannot be used. Returns one sentence per problem that
   * was not returned before.
   */
  addTo(tools: Map<string, CataloguedTool>): string[] {
    const problems: string[] = [];
    const compiled = new Map<string, CompiledTool | string>();
    for (const tool of this.#tools) {
      const made = this.#make(tool);
      if (made.definition !== undefined) compiled.set(made.definition, made.compiled);
      const { result } = made;
      if ("problem" in result) problems.push(result.problem);
      else if (tools.has(result.entry.name))
        problems.push(`tool "${result.entry.name}" already exists`);
      else tools.set(result.entry.name, result);
    }
    this.#compiled = compiled;
    const reported = this.#reported;
    this.#reported = new Set(problems);
    return problems.filter((problem) => !reported.has(problem));
  }

  #make(tool: Tool): Made {
    let made = this.#made.get(tool);
    if (made === undefined) {
      made = this.#madeOf(tool);
      this.#made.set(tool, made);
    }
    return made;
  }

  #madeOf(tool: Tool): Made {
    const { metrics, counts } = this.#deps;
    let definition: string | undefined;
    let compiled: CompiledTool | string;
    try {
      // A plugin in JavaScript may misspell it.
      if (typeof (tool as Partial<Tool>).call !== "function") {
        throw new TypeError("it has no function `call`");
      }
      definition = definitionOf(tool);
      compiled = this.#compiled.get(definition) ?? compileTool(tool);
      if (typeof compiled !== "string") {
        const result = catalogued(tool, compiled, { metrics, counts: counts("tool") });
        return { definition, compiled, result };
      }
    } catch (error) {
      this.#countFailure();
      compiled = `cannot be used: ${messageOf(error)}`;
    }
    const problem = `tool "${nameOf(tool)}" ${compiled}`;
    return { definition, compiled, result: { problem } };
  }

  report(problems: readonly string[]): void {
    const { plugin, hooks, log } = this.#deps;
    for (const problem of problems) {
      if (hooks.onInvalid === undefined) {
        log.warn({ plugin, problem }, "a tool was skipped");
        continue;
      }
      try {
        hooks.onInvalid(problem);
      } catch (error) {
        this.#countFailure();
        log.error({ err: error, plugin, problem }, "`onInvalid` of a plugin failed");
      }
    }
  }

  #countFailure(): void {
    this.#deps.counts("tool").failed("throw");
  }
}

export function isSame(present: readonly unknown[], before: readonly unknown[]): boolean {
  if (!Array.isArray(present) || present.length !== before.length) return false;
  for (let i = 0; i < before.length; i++) if (present[i] !== before[i]) return false;
  return true;
}

/** Throws if a plugin in JavaScript returns anything other than an array of objects. */
function listOf(present: unknown): readonly Tool[] {
  if (!Array.isArray(present)) throw new TypeError("`tools` is not an array");
  const members = [...(present as readonly unknown[])];
  const wrong = members.findIndex((tool) => typeof tool !== "object" || tool === null);
  if (wrong >= 0) throw new TypeError(`\`tools[${wrong}]\` is not an object`);
  // The schema or the tool itself validates the input of each call, which justifies the cast.
  return members as readonly Tool[];
}

function nameOf(tool: Tool): string {
  try {
    const name: unknown = tool.name;
    return String(name);
  } catch {
    return "";
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : "it throws";
}
