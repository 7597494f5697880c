/**
 * Reads the tools of a request. Functions reach the worker as they are. A custom tool, whose input is free text, becomes
 * a function with one text. Tools that the provider would run itself are dropped and named, because agents send them with
 * every request.
 */
import { isObject } from "sluice-gateway/toolkit";
import * as check from "../completions/check.ts";
import type { Json } from "../completions/check.ts";
import type { Reading } from "../completions/conversation.ts";

export interface ToolMembers {
  /** Members of the chat request; empty without tools. */
  readonly forWorker: Json;
  /** Names of the custom tools. */
  readonly custom: ReadonlySet<string>;
  /** The tools as the response repeats them. */
  readonly shown: readonly Json[];
}

interface Tool {
  readonly type: "function" | "custom";
  readonly name: string;
  /** The function that the worker gets. */
  readonly declared: Json;
  readonly shown: Json;
}

const customParameters = {
  type: "object",
  properties: { input: { type: "string" } },
  required: ["input"],
  additionalProperties: false,
};

export function readTools(body: Json, { passes, ignored }: Reading): ToolMembers {
  const tools: Tool[] = [];
  for (const [index, one] of check.list(body["tools"] ?? [], "tools").entries()) {
    const path = `tools[${index}]`;
    const tool = check.object(one, path);
    const type = check.name(tool["type"], `${path}.type`);
    if (type === "function") tools.push(functionTool(tool, path));
    else if (type === "custom") tools.push(customTool(tool, path));
    else ignored.addChosen(`tools.${type}`);
  }
  if (tools.length > 0) check.needPassed(passes, "tools", "tools");
  const names = tools.map(({ name }) => name);
  if (new Set(names).size < names.length) check.fail("tools", "two tools have the same name");
  const { tool_choice: choice, parallel_tool_calls: parallel } = body;
  const forWorker = {
    tools: tools.map(({ declared }) => ({ type: "function", function: declared })),
    tool_choice: check.optional(choice, "tool_choice", choiceAmong(names)),
    parallel_tool_calls: check.optional(parallel, "parallel_tool_calls", check.boolean),
  };
  return {
    forWorker: tools.length === 0 ? {} : forWorker,
    custom: new Set(tools.filter(({ type }) => type === "custom").map(({ name }) => name)),
    shown: tools.map(({ shown }) => shown),
  };
}

function functionTool(tool: Json, path: string): Tool {
  const declared = {
    name: check.name(tool["name"], `${path}.name`),
    description: check.optional(tool["description"], `${path}.description`, check.text),
    parameters: check.optional(tool["parameters"], `${path}.parameters`, check.object),
    strict: tool["strict"] ?? undefined,
  };
  const shown = { description: null, parameters: null, strict: null, ...tool };
  return { type: "function", name: declared.name, declared, shown };
}

/** The model learns the grammar of a custom tool from its description, because workers cannot enforce it. */
function customTool(tool: Json, path: string): Tool {
  const name = check.name(tool["name"], `${path}.name`);
  const text = check.text(tool["description"] ?? "", `${path}.description`);
  const { syntax, definition } = isObject(tool["format"]) ? tool["format"] : {};
  const grammar =
    typeof definition === "string"
      ? `\n\nThe input must match this ${typeof syntax === "string" ? syntax : ""} grammar:\n${definition}`
      : "";
  const declared = { name, description: text + grammar, parameters: customParameters };
  return { type: "custom", name, declared, shown: tool };
}

/** Returns a function that reads the choice for the worker. */
function choiceAmong(names: readonly string[]): (value: unknown, path: string) => unknown {
  return (value, path) => {
    if (value === "auto" || value === "none") return value;
    if (value === "required") {
      if (names.length > 0) return value;
      check.unsupported(path, "the request has no tool that the client can run");
    }
    const { type, name } = check.object(value, path);
    if (type !== "function" && type !== "custom") {
      check.unsupported(`${path}.type`, "only one tool that the client runs can be chosen");
    }
    const chosen = names.find((one) => one === name);
    if (chosen === undefined) check.fail(`${path}.name`, "`tools` has no such tool");
    return { type: "function", function: { name: chosen } };
  };
}
