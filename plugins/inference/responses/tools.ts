/**
 * Functions reach the worker as they are. A custom tool, whose input is free text, becomes a function with one text.
 * Tools that the provider would run itself are dropped and named, because agents send them with every request.
 */
import { isAbsent, isObject } from "sluice-gateway/internal/toolkit";
import * as check from "../completions/check.ts";
import type { Json } from "../completions/check.ts";
import { toolChoice, type Reading } from "../completions/conversation.ts";

export interface ToolMembers {
  readonly forWorker: Json;
  readonly custom: ReadonlySet<string>;
  /** The tools as the response repeats them. */
  readonly shown: readonly Json[];
}

const parallel = "parallel_tool_calls";
const customParameters = {
  type: "object",
  properties: { input: { type: "string" } },
  required: ["input"],
  additionalProperties: false,
};

export function readTools(body: Json, { passes, ignored }: Reading): ToolMembers {
  const functions = new Map<string, Json>();
  const custom = new Set<string>();
  const shown: Json[] = [];
  for (const [index, one] of check.list(body["tools"] ?? [], "tools").entries()) {
    const path = `tools[${index}]`;
    const tool = check.object(one, path);
    const type = check.name(tool["type"], `${path}.type`);
    if (type !== "function" && type !== "custom") {
      ignored.addChosen(`tools.${type}`);
      continue;
    }
    const name = check.name(tool["name"], `${path}.name`);
    if (functions.has(name)) check.fail("tools", "two tools have the same name");
    if (type === "custom") custom.add(name);
    functions.set(name, type === "custom" ? customTool(tool, path) : functionTool(tool, path));
    shown.push(
      type === "custom" ? tool : { description: null, parameters: null, strict: null, ...tool },
    );
  }
  if (functions.size > 0) check.needPassed(passes, "tools", "tools");
  const forWorker = {
    tools: Array.from(functions.values(), (one) => ({ type: "function", function: one })),
    tool_choice: readChoice(body["tool_choice"], functions),
    [parallel]: check.optional(body[parallel], parallel, check.boolean),
  };
  return { forWorker: functions.size === 0 ? {} : forWorker, custom, shown };
}

function functionTool(tool: Json, path: string): Json {
  return {
    name: tool["name"],
    description: check.optional(tool["description"], `${path}.description`, check.text),
    parameters: check.optional(tool["parameters"], `${path}.parameters`, check.object),
    strict: tool["strict"] ?? undefined,
  };
}

/** The model learns the grammar of a custom tool from its description, because workers cannot enforce it. */
function customTool(tool: Json, path: string): Json {
  const text = check.text(tool["description"] ?? "", `${path}.description`);
  const { syntax, definition } = isObject(tool["format"]) ? tool["format"] : {};
  const grammar =
    typeof definition === "string"
      ? `\n\nThe input must match this ${typeof syntax === "string" ? syntax : ""} grammar:\n${definition}`
      : "";
  return { name: tool["name"], description: text + grammar, parameters: customParameters };
}

function readChoice(value: unknown, tools: ReadonlyMap<string, Json>): unknown {
  if (isAbsent(value)) return undefined;
  if (value === "required" && tools.size === 0) {
    check.unsupported("tool_choice", "the request has no tool that the client can run");
  }
  if (value === "auto" || value === "none" || value === "required") return value;
  const { type, name } = check.object(value, "tool_choice");
  if (type !== "function" && type !== "custom") {
    check.unsupported("tool_choice.type", "only one tool that the client runs can be chosen");
  }
  return toolChoice(tools, name, "tool_choice.name");
}
