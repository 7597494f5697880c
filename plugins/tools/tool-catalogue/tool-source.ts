/** The tools of one plugin, which can change while the gateway runs. */
import type { HookCounts, Log, ToolsHooks } from "sluice-gateway/plugin";
import type { Tool } from "sluice-gateway/services";
import { catalogued, type CataloguedTool, type ToolParts } from "./catalogued-tool.ts";

/** A tool of the list of a plugin, with the problem that it has by itself. */
type Made = CataloguedTool | { readonly problem: string };

export interface SourceParts extends Omit<ToolParts, "counts"> {
  /** Name of the plugin, for the log. */
  readonly plugin: string | undefined;
  readonly hooks: ToolsHooks;
  readonly log: Log;
  /** Returns the counts of the plugin for its calls of one kind. */
  readonly counts: (hook: string) => HookCounts;
}

export class ToolSource {
  readonly #parts: SourceParts;
  #tools: readonly Tool[] = [];
  /** What was made of each tool object. An object that is listed again is not checked and compiled again. */
  readonly #made = new WeakMap<Tool, Made>();
  /** The problems of the present list that were reported. */
  #reported: ReadonlySet<string> = new Set();
  #unreadable: string | undefined;
  #isUnstable = false;

  constructor(parts: SourceParts) {
    this.#parts = parts;
  }

  /** Reads the list of the plugin for the first time. Returns the problem if it cannot be read. */
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
   * Reads the list again and returns whether its members have changed. If it cannot be read, the last list stays. This
   * is logged once for each reason, because the catalogue reads the list for every call.
   */
  follow(): boolean {
    try {
      const hasChanged = this.#read();
      this.#unreadable = undefined;
      return hasChanged;
    } catch (error) {
      const { plugin, log } = this.#parts;
      this.#countFailure();
      const reason = messageOf(error);
      if (reason !== this.#unreadable) {
        log.error({ err: error, plugin }, "the changed tools of a plugin cannot be used");
      }
      this.#unreadable = reason;
      return false;
    }
  }

  /** Throws if the list cannot be read. */
  #read(): boolean {
    const { hooks } = this.#parts;
    const present = hooks.tools;
    if (isSame(present, this.#tools)) return false;
    const tools = listOf(present);
    // The second read shows whether the objects are new or the plugin makes new ones for each read.
    const isUnstable = !this.#isUnstable && !isSame(hooks.tools, tools);
    this.#tools = tools;
    if (isUnstable) this.#warnOfNewObjects();
    return true;
  }

  #warnOfNewObjects(): void {
    this.#isUnstable = true;
    const { plugin, log } = this.#parts;
    log.warn(
      { plugin },
      "a plugin returns new tool objects each time its tools are read, so each call checks and compiles all of them again; return the same objects while the tools do not change",
    );
  }

  /**
   * Adds the tools of the plugin to the catalogue. `tools`: those of the plugins before this one, whose names cannot be
   * used. Returns one sentence per problem that was not returned before.
   */
  addTo(tools: Map<string, CataloguedTool>): string[] {
    const problems: string[] = [];
    for (const tool of this.#tools) {
      const made = this.#make(tool);
      if ("problem" in made) problems.push(made.problem);
      else if (tools.has(made.entry.name))
        problems.push(`tool "${made.entry.name}" already exists`);
      else tools.set(made.entry.name, made);
    }
    const reported = this.#reported;
    this.#reported = new Set(problems);
    return problems.filter((problem) => !reported.has(problem));
  }

  #make(tool: Tool): Made {
    const known = this.#made.get(tool);
    if (known !== undefined) return known;
    let made: CataloguedTool | string;
    try {
      const { metrics, compile, counts } = this.#parts;
      made = catalogued(tool, { metrics, compile, counts: counts("tool") });
    } catch (error) {
      this.#countFailure();
      made = `cannot be used: ${messageOf(error)}`;
    }
    const result = typeof made === "string" ? { problem: `tool "${nameOf(tool)}" ${made}` } : made;
    this.#made.set(tool, result);
    return result;
  }

  /** Reports problems of tools that came after the start. */
  report(problems: readonly string[]): void {
    const { plugin, hooks, log } = this.#parts;
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
    this.#parts.counts("tool").failed("throw");
  }
}

function isSame(present: ToolsHooks["tools"], before: readonly Tool[]): boolean {
  if (!Array.isArray(present) || present.length !== before.length) return false;
  for (let i = 0; i < before.length; i++) if (present[i] !== before[i]) return false;
  return true;
}

/** Returns a copy of the list. Throws if a plugin in JavaScript returns something else than an array of objects. */
function listOf(present: unknown): readonly Tool[] {
  if (!Array.isArray(present)) throw new TypeError("`tools` is not an array");
  const members = [...(present as readonly unknown[])];
  const wrong = members.findIndex((tool) => typeof tool !== "object" || tool === null);
  if (wrong >= 0) throw new TypeError(`\`tools[${wrong}]\` is not an object`);
  // The input is validated by the schema of the tool before each call, which justifies the cast.
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
