/** Translates tools and the choice of a tool to those of chat completions. */
import { isAbsent } from "sluice-gateway/toolkit";
import {
  invalid,
  listAt,
  nameAt,
  notPassed,
  objectAt,
  shownWord,
  stringAt,
  type Json,
  type Reading,
} from "./reading.ts";

/** Members that are translated, or that only tell the client's own API how to treat the tool. */
const knownMembers: ReadonlySet<string> = new Set([
  "type",
  "name",
  "description",
  "input_schema",
  "strict",
  "defer_loading",
]);

/** Returns the members of the chat request. `referenced`: the names of the deferred tools that are loaded. */
export function readTools(body: Json, referenced: ReadonlySet<string>, reading: Reading): Json {
  const { tools: value, tool_choice: choice } = body;
  const { passes, ignored } = reading;
  const given = isAbsent(value) ? [] : listAt(value, "tools");
  if (given.length > 0 && !passes.includes("tools")) throw notPassed("tools", "tools");
  const tools = given.flatMap((one, index) => {
    const tool = objectAt(one, `tools.${index}`);
    const declared = readTool(tool, `tools.${index}`, reading);
    const isLoaded = tool["defer_loading"] !== true || referenced.has(declared.name);
    return isLoaded ? [declared] : [];
  });
  if (tools.length === 0) {
    if (!isAbsent(choice)) ignored.add("tool_choice");
    return {};
  }
  return {
    tools: tools.map((declared) => ({ type: "function", function: declared })),
    ...(!isAbsent(choice) && readChoice(objectAt(choice, "tool_choice"), tools)),
  };
}

interface Tool {
  readonly name: string;
}

function readTool(tool: Json, path: string, { ignored }: Reading): Tool {
  const { type, description, strict } = tool;
  if (!isAbsent(type) && type !== "custom") {
    throw invalid(
      `${path}.type`,
      `${shownWord(type)} is not supported, only tools of type "custom" that the client runs`,
    );
  }
  const name = nameAt(tool["name"], `${path}.name`);
  for (const member of Object.keys(tool)) {
    if (knownMembers.has(member) || isAbsent(tool[member])) continue;
    if (member === "cache_control") ignored.add(member);
    else ignored.addUnknown(`tools.${member}`);
  }
  return {
    name,
    ...(!isAbsent(description) && { description: stringAt(description, `${path}.description`) }),
    parameters: objectAt(tool["input_schema"], `${path}.input_schema`),
    ...(typeof strict === "boolean" && { strict }),
  } as Tool;
}

function readChoice(choice: Json, tools: readonly Tool[]): Json {
  const parallel = choice["disable_parallel_tool_use"] === true && { parallel_tool_calls: false };
  return { tool_choice: chosen(choice, tools), ...parallel };
}

function chosen({ type, name }: Json, tools: readonly Tool[]): unknown {
  if (type === "auto" || type === "none") return type;
  if (type === "any") return "required";
  if (type !== "tool") throw invalid("tool_choice.type", "expected auto, any, tool or none");
  if (!tools.some((tool) => tool.name === name)) {
    throw invalid("tool_choice.name", "expected the name of one of the tools");
  }
  return { type: "function", function: { name } };
}
