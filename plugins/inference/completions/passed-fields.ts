/** The fields of a request that a network can pass on to its workers (`passes`), and those that are ignored. */
import type { Passable } from "sluice-gateway/services";
import { isAbsent, isObject } from "sluice-gateway/toolkit";

type Json = Readonly<Record<string, unknown>>;

/**
 * Fields of chat completions that clients send, with the part of a request that they belong to: first those that
 * gateway.md lists as ignored, then newer ones. Fields without a part are never forwarded.
 */
const partOfField: Readonly<Record<string, Passable | undefined>> = {
  temperature: "sampling",
  top_p: "sampling",
  n: "sampling",
  stop: "sampling",
  presence_penalty: "sampling",
  frequency_penalty: "sampling",
  seed: "sampling",
  user: undefined,
  tools: "tools",
  tool_choice: "tools",
  response_format: "format",
  logprobs: "logprobs",
  logit_bias: "sampling",
  top_logprobs: "logprobs",
  parallel_tool_calls: "tools",
  functions: undefined,
  function_call: undefined,
  reasoning_effort: "reasoning",
  modalities: undefined,
  audio: undefined,
  prediction: undefined,
  top_k: "sampling",
  min_p: "sampling",
  repetition_penalty: "sampling",
};

/** The names that `splitFields` can return as ignored. */
export const knownFields: readonly string[] = Object.keys(partOfField);

/** Returns the fields that are forwarded, as they are, and the names of the known fields that are not. */
export function splitFields(
  body: Json,
  passes: readonly Passable[],
): { readonly passed: Json; readonly ignored: readonly string[] } {
  const passed: Record<string, unknown> = {};
  const ignored: string[] = [];
  for (const [name, part] of Object.entries(partOfField)) {
    if (!Object.hasOwn(body, name) || isAbsent(body[name])) continue;
    if (part !== undefined && passes.includes(part)) passed[name] = body[name];
    else ignored.push(name);
  }
  return { passed, ignored };
}

/** Returns the reason why a forwarded field is invalid. Everything else is left to the worker. */
export function problemOfPassed({ n = 1, tools = [] }: Json): string | undefined {
  if (n !== 1) return "n must be 1, because a request has one completion";
  if (!Array.isArray(tools)) return "tools must be a list";
  const wrong = tools.findIndex((tool) => !isFunctionTool(tool));
  return wrong === -1 ? undefined : `tools[${wrong}] must be a function with a name`;
}

function isFunctionTool(tool: unknown): boolean {
  if (!isObject(tool) || tool["type"] !== "function") return false;
  const { function: declared } = tool;
  return isObject(declared) && typeof declared["name"] === "string" && declared["name"] !== "";
}
