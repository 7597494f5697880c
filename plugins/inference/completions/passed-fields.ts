/** The fields of a request that a network can pass on to its workers (`passes`), and those that are ignored. */
import type { Passable } from "sluice-gateway/services";
import { isAbsent, isObject } from "sluice-gateway/internal/toolkit";
import * as check from "./check.ts";
import type { Json } from "./check.ts";
import type { IgnoredNames } from "./ignored-fields.ts";

/** The fields that gateway.md lists as ignored, then newer ones. Fields without a part are never forwarded. */
const partOfField: readonly (readonly [name: string, part: Passable | undefined])[] = [
  ["temperature", "sampling"],
  ["top_p", "sampling"],
  ["n", "sampling"],
  ["stop", "sampling"],
  ["presence_penalty", "sampling"],
  ["frequency_penalty", "sampling"],
  ["seed", "sampling"],
  ["user", undefined],
  ["tools", "tools"],
  ["tool_choice", "tools"],
  ["response_format", "format"],
  ["logprobs", "logprobs"],
  ["logit_bias", "sampling"],
  ["top_logprobs", "logprobs"],
  ["parallel_tool_calls", "tools"],
  ["functions", undefined],
  ["function_call", undefined],
  ["reasoning_effort", "reasoning"],
  ["modalities", undefined],
  ["audio", undefined],
  ["prediction", undefined],
  ["top_k", "sampling"],
  ["min_p", "sampling"],
  ["repetition_penalty", "sampling"],
  ["metadata", undefined],
  ["service_tier", undefined],
  ["store", undefined],
  ["verbosity", undefined],
  ["web_search_options", undefined],
];

/** The efforts of the newer APIs and the names that workers have for them. vLLM and SGLang refuse all other names. */
export const workerEfforts: ReadonlyMap<unknown, string> = new Map([
  ["minimal", "low"],
  ["low", "low"],
  ["medium", "medium"],
  ["high", "high"],
  ["xhigh", "high"],
  ["max", "high"],
]);

export const knownFields: readonly string[] = partOfField.map(([name]) => name);

/** All other members of a request are named as the client wrote them. The gateway reads the first ones itself. */
const knownMembers: readonly string[] = [
  "model",
  "messages",
  "stream",
  "stream_options",
  "max_tokens",
  "max_completion_tokens",
  "chat_template_kwargs",
  "prompt_cache_key",
  ...knownFields,
];

/** Adds the names of the fields that are not forwarded to `ignored`. */
export function passedFields(body: Json, passes: readonly Passable[], ignored: IgnoredNames): Json {
  const passed: Record<string, unknown> = {};
  for (const [name, part] of partOfField) {
    if (!Object.hasOwn(body, name) || isAbsent(body[name])) continue;
    if (part !== undefined && passes.includes(part)) passed[name] = body[name];
    else ignored.add(name);
  }
  ignored.addOthers(body, knownMembers, "");
  checkPassed(passed);
  return passed;
}

/** Throws `InvalidRequest` for a forwarded field that cannot be served. Everything else is left to the worker. */
function checkPassed({ n = 1, tools = [] }: Json): void {
  if (n !== 1) check.fail("n", "expected 1, because a request has one completion");
  const wrong = check.list(tools, "tools").findIndex((tool) => !isFunctionTool(tool));
  if (wrong !== -1) check.fail(`tools[${wrong}]`, "expected a function with a name");
}

function isFunctionTool(tool: unknown): boolean {
  if (!isObject(tool) || tool["type"] !== "function") return false;
  const { function: declared } = tool;
  return isObject(declared) && typeof declared["name"] === "string" && declared["name"] !== "";
}
