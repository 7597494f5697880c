/** Translates tools and the choice of a tool to those of chat completions. */
import { isAbsent } from "sluice-gateway/internal/toolkit";
import * as check from "../completions/check.ts";
import type { Json } from "../completions/check.ts";
import { toolChoice } from "../completions/conversation.ts";
import type { Reading } from "./conversation.ts";

const translated = ["type", "name", "description", "input_schema", "strict", "defer_loading"];

/** `referenced`: deferred tools that the messages load, by name. Other deferred tools do not reach the model. */
export function readTools(body: Json, referenced: ReadonlySet<unknown>, reading: Reading): Json {
  const { tools: value, tool_choice: choice } = body;
  const given = check.list(value ?? [], "tools");
  if (given.length > 0) check.needPassed(reading.passes, "tools", "tools");
  const tools = given.flatMap((one, index) => {
    const tool = check.object(one, `tools.${index}`);
    const declared = readTool(tool, `tools.${index}`, reading);
    return tool["defer_loading"] !== true || referenced.has(declared["name"]) ? [declared] : [];
  });
  if (tools.length === 0) {
    if (!isAbsent(choice)) reading.ignored.add("tool_choice");
    return {};
  }
  const byName = new Map(tools.map((declared) => [declared["name"], declared]));
  return {
    tools: tools.map((declared) => ({ type: "function", function: declared })),
    ...(!isAbsent(choice) && readChoice(check.object(choice, "tool_choice"), byName)),
  };
}

function readTool(tool: Json, path: string, { ignored }: Reading): Json {
  const { type, name, description, strict, input_schema: schema } = tool;
  if (!isAbsent(type) && type !== "custom") {
    throw check.unknownType(`${path}.type`, type, "a tool that the client runs");
  }
  for (const member of Object.keys(tool)) {
    if (translated.includes(member) || isAbsent(tool[member])) continue;
    ignored.addChosen(member === "cache_control" ? member : `tools.${member}`);
  }
  return {
    name: check.name(name, `${path}.name`),
    description: check.optional(description, `${path}.description`, check.text),
    parameters: check.object(schema, `${path}.input_schema`),
    strict: typeof strict === "boolean" ? strict : undefined,
  };
}

function readChoice(
  { type, name, disable_parallel_tool_use: single }: Json,
  tools: ReadonlyMap<unknown, unknown>,
): Json {
  const parallel = single === true && { parallel_tool_calls: false };
  if (type === "auto" || type === "none") return { tool_choice: type, ...parallel };
  if (type === "any") return { tool_choice: "required", ...parallel };
  if (type !== "tool") throw check.unknownType("tool_choice.type", type, "auto, any, tool or none");
  return { tool_choice: toolChoice(tools, name, "tool_choice.name"), ...parallel };
}
