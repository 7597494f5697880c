/**
 * Reads the tools of a request. Functions reach the worker as they are. A custom tool, whose input is free text, becomes
 * a function with one text. Tools that the provider would run itself are dropped and named, because agents send them with
 * every request.
 */
import type { Passable } from "sluice-gateway/services";
import { isAbsent, isObject } from "sluice-gateway/toolkit";
import type { IgnoredNames } from "../completions/ignored-fields.ts";
import {
  invalid,
  listAt,
  nameAt,
  needPassed,
  objectAt,
  unsupported,
} from "../completions/request-problem.ts";

type Json = Readonly<Record<string, unknown>>;

export interface ToolMembers {
  /** Members of the chat request; empty without tools. */
  readonly forWorker: Json;
  /** Names of the custom tools. */
  readonly custom: ReadonlySet<string>;
  /** The tools as the response repeats them. */
  readonly shown: readonly Json[];
  readonly shownChoice: unknown;
}

interface Tool {
  readonly type: "function" | "custom";
  readonly name: string;
  readonly forWorker: Json;
  readonly shown: Json;
}

const customParameters = {
  type: "object",
  properties: { input: { type: "string" } },
  required: ["input"],
  additionalProperties: false,
};

export function readTools(
  body: Json,
  passes: readonly Passable[],
  ignored: IgnoredNames,
): ToolMembers {
  const tools = readList(body["tools"], ignored);
  if (tools.length > 0) needPassed(passes, "tools", "tools");
  const { tool_choice: wanted, parallel_tool_calls: parallel } = body;
  if (!isAbsent(parallel) && typeof parallel !== "boolean") {
    throw invalid("parallel_tool_calls", "expected true or false");
  }
  const { choice, chosen } = readChoice(wanted, tools);
  return {
    forWorker:
      chosen.length === 0
        ? {}
        : {
            tools: chosen.map((tool) => tool.forWorker),
            ...(choice !== undefined && { tool_choice: choice }),
            ...(!isAbsent(parallel) && { parallel_tool_calls: parallel }),
          },
    custom: new Set(tools.filter(({ type }) => type === "custom").map(({ name }) => name)),
    shown: tools.map((tool) => tool.shown),
    shownChoice: wanted ?? "auto",
  };
}

function readList(value: unknown, ignored: IgnoredNames): Tool[] {
  if (isAbsent(value)) return [];
  const tools: Tool[] = [];
  const names = new Set<string>();
  for (const [index, one] of listAt(value, "tools").entries()) {
    const path = `tools[${index}]`;
    const tool = objectAt(one, path);
    const type = nameAt(tool["type"], `${path}.type`);
    if (type !== "function" && type !== "custom") {
      ignored.add(`tools.${type}`);
      continue;
    }
    const name = nameAt(tool["name"], `${path}.name`);
    if (names.has(name)) throw invalid(`${path}.name`, "another tool has the same name");
    names.add(name);
    tools.push(type === "function" ? functionTool(name, tool, path) : customTool(name, tool, path));
  }
  return tools;
}

function functionTool(name: string, tool: Json, path: string): Tool {
  const { description = null, parameters = null, strict = null } = tool;
  if (description !== null && typeof description !== "string") {
    throw invalid(`${path}.description`, "expected a text");
  }
  if (parameters !== null && !isObject(parameters)) {
    throw invalid(`${path}.parameters`, "expected a JSON schema");
  }
  const given = Object.entries({ description, parameters, strict }).filter(
    ([, value]) => value !== null,
  );
  return {
    type: "function",
    name,
    forWorker: { type: "function", function: { name, ...Object.fromEntries(given) } },
    shown: { type: "function", name, description, parameters, strict },
  };
}

/** The model learns the grammar of a custom tool from its description, because workers cannot enforce it. */
function customTool(name: string, tool: Json, path: string): Tool {
  const { description = "", format } = tool;
  if (typeof description !== "string") throw invalid(`${path}.description`, "expected a text");
  const { syntax, definition } = isObject(format) ? format : {};
  const grammar =
    typeof definition === "string"
      ? `\n\nThe input must match this ${typeof syntax === "string" ? syntax : ""} grammar:\n${definition}`
      : "";
  const declared = { name, description: description + grammar, parameters: customParameters };
  return {
    type: "custom",
    name,
    forWorker: { type: "function", function: declared },
    shown: { type: "custom", name, description, format: format ?? { type: "text" } },
  };
}

/** Returns the choice for the worker, and the tools that the model may call. */
function readChoice(
  value: unknown,
  tools: readonly Tool[],
): { readonly choice: unknown; readonly chosen: readonly Tool[] } {
  if (isAbsent(value)) return { choice: undefined, chosen: tools };
  if (value === "auto" || value === "none") return { choice: value, chosen: tools };
  if (value === "required") {
    if (tools.length > 0) return { choice: value, chosen: tools };
    throw unsupported("tool_choice", "the request has no tool that the client can run");
  }
  if (!isObject(value)) throw invalid("tool_choice", "expected a text or an object");
  const { type, mode } = value;
  if (type === "function" || type === "custom") {
    const name = nameAt(value["name"], "tool_choice.name");
    if (!tools.some((tool) => tool.name === name)) {
      throw invalid("tool_choice.name", "`tools` has no such tool");
    }
    return { choice: { type: "function", function: { name } }, chosen: tools };
  }
  if (type !== "allowed_tools") {
    throw unsupported("tool_choice.type", "only tools that the client runs can be chosen");
  }
  const allowed = listAt(value["tools"], "tool_choice.tools");
  const names = new Set(allowed.map((one) => (isObject(one) ? one["name"] : undefined)));
  const chosen = tools.filter(({ name }) => names.has(name));
  return readChoice(mode === "required" ? mode : "auto", chosen);
}
