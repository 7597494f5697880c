/**
 * Translates a request of the Responses API into one of chat completions, the format of workers. Unknown members are
 * ignored and named, because agents add some every few weeks. Unknown items are refused, because they are content.
 */
import type { Passable, PromptOptions } from "sluice-gateway/services";
import { isAbsent } from "sluice-gateway/internal/toolkit";
import type { ReadCompletion } from "../completions/api.ts";
import * as check from "../completions/check.ts";
import type { Json } from "../completions/check.ts";
import { IgnoredNames } from "../completions/ignored-fields.ts";
import { workerEfforts } from "../completions/passed-fields.ts";
import { allPassed, maxTokenLimit, readChatRequest } from "../completions/request.ts";
import type { ReasoningSeal } from "../completions/sealed-reasoning.ts";
import { InputReader } from "./input.ts";
import { responseRenderer } from "./renderer.ts";
import { readTools } from "./tools.ts";

const maxTokens = check.integer(1, maxTokenLimit);
const topLogprobs = check.integer(0, 20);

const nothingStored = "nothing is stored here; send the whole conversation in `input`";
/** Members that are refused unless they have this value, because they need a state or would change the input. */
const refused: readonly (readonly [name: string, accepted: unknown, reason: string])[] = [
  ["previous_response_id", undefined, nothingStored],
  ["conversation", undefined, nothingStored],
  ["prompt", undefined, nothingStored],
  ["background", false, "the gateway does not run requests in the background"],
  ["truncation", "disabled", "the gateway does not shorten the input"],
  ["n", 1, "a request has one response"],
];

/** Members that the response repeats, with the JSON that it has if they are missing, ignored or long. */
const repeated: readonly (readonly [name: string, missing: string])[] = [
  ["instructions", "null"],
  ["tools", "[]"],
  ["tool_choice", '"auto"'],
  ["parallel_tool_calls", "true"],
  ["text", '{"format":{"type":"text"}}'],
  ["temperature", "1"],
  ["top_p", "1"],
  ["presence_penalty", "0"],
  ["frequency_penalty", "0"],
  ["top_logprobs", "0"],
  ["reasoning", '{"effort":null,"summary":null}'],
  ["max_output_tokens", "null"],
  ["metadata", "{}"],
  ["prompt_cache_key", "null"],
];
const missingMembers = repeated.map(([name, missing]) => `"${name}":${missing}`);
/** Maximum size of a repeated member in characters of JSON. It stays in memory until the end of the answer. */
const maxRepeated = 16 * 1024;

/** Members that a worker gets that has this API itself. */
export const nativeMembers: ReadonlySet<string> = new Set(
  repeated.map(([name]) => name).concat("model", "stream", "input", "include"),
);
const knownMembers = [...nativeMembers, ...refused.map(([name]) => name), "store"];

/** Names that clients often get as ignored, for metrics. */
export const counted =
  "client_metadata context_management include input.reasoning max_tool_calls other prompt_cache_retention reasoning.effort reasoning.summary safety_identifier service_tier store stream_options temperature text.verbosity tools.namespace tools.web_search top_logprobs top_p user";

/** Names of chat completions in the list of ignored fields, and their names here. */
const renamed: Readonly<Record<string, string | undefined>> = {
  reasoning_effort: "reasoning.effort",
  logprobs: "top_logprobs",
};

/** Throws `InvalidRequest`. */
export function readResponsesRequest(
  body: Json,
  options: PromptOptions = allPassed,
  seal: ReasoningSeal,
): ReadCompletion {
  for (const [name, accepted, reason] of refused) {
    if (!isAbsent(body[name]) && body[name] !== accepted) check.unsupported(name, reason);
  }
  const ignored = new IgnoredNames();
  const instructions = check.optional(body["instructions"], "instructions", check.text);
  const reading = { passes: options.passes, ignored, seal };
  const messages = new InputReader(reading).read(instructions, body["input"]);
  const tools = readTools(body, reading);
  const text = check.object(body["text"] ?? {}, "text");
  ignored.addOthers(text, ["format"], "text.");
  const format = readFormat(text["format"], options.passes);
  const reasoning = check.object(body["reasoning"] ?? {}, "reasoning");
  ignored.addOthers(reasoning, ["effort"], "reasoning.");
  const effort = check.optional(reasoning["effort"], "reasoning.effort", check.name);
  const include = check.list(body["include"] ?? [], "include");
  const isSealed = include.includes("reasoning.encrypted_content");
  const read = <T>(name: string, how: (value: unknown, path: string) => T): T | undefined =>
    check.optional(body[name], name, how);
  const logprobs = read("top_logprobs", topLogprobs);
  const chat = {
    model: read("model", check.name),
    messages,
    stream: read("stream", check.boolean),
    max_tokens: read("max_output_tokens", maxTokens),
    response_format: format.forWorker,
    reasoning_effort: effort === "none" ? undefined : (workerEfforts.get(effort) ?? effort),
    chat_template_kwargs: {
      // The model thinks if the client asks for reasoning in any way.
      enable_thinking:
        effort !== "none" && Object.values(reasoning).some((each) => !isAbsent(each)),
    },
    temperature: read("temperature", check.number),
    top_p: read("top_p", check.number),
    presence_penalty: read("presence_penalty", check.number),
    frequency_penalty: read("frequency_penalty", check.number),
    logprobs: Number(logprobs) > 0 ? true : undefined,
    top_logprobs: logprobs,
    prompt_cache_key: read("prompt_cache_key", check.text),
    ...tools.forWorker,
  };
  const { request, session } = readChatRequest(chat, options);
  if (include.length > Number(isSealed)) ignored.add("include");
  ignored.addOthers(body, knownMembers, "");
  if (body["store"] === true) ignored.add("store");
  for (const name of request.ignored) ignored.add(renamed[name] ?? name);
  const shownEffort = request.ignored.includes("reasoning_effort") ? null : (effort ?? null);
  const shown: Json = {
    tools: tools.shown,
    text: { format: format.shown },
    reasoning: { effort: shownEffort, summary: null },
    metadata: check.object(body["metadata"] ?? {}, "metadata"),
  };
  const renderer = responseRenderer({
    repeated: repeatedJson((name) => {
      const value = body[name];
      return isAbsent(value) || request.ignored.includes(name) ? undefined : (shown[name] ?? value);
    }),
    customTools: tools.custom,
    seal: isSealed ? seal : undefined,
  });
  return { session, request: { ...request, ignored: ignored.names }, renderer };
}

/** `shown` is the format as the response repeats it. A format that is silently ignored would break agents. */
function readFormat(
  value: unknown,
  passes: readonly Passable[],
): { readonly forWorker?: Json; readonly shown: Json } {
  const shown = check.object(value ?? { type: "text" }, "text.format");
  const { type, ...format } = shown;
  if (type === "text") return { shown };
  if (type !== "json_object" && type !== "json_schema") {
    check.fail("text.format.type", "expected text, json_object or json_schema");
  }
  check.needPassed(passes, "format", "text.format");
  if (type === "json_object") return { forWorker: { type }, shown };
  check.name(format["name"], "text.format.name");
  check.object(format["schema"], "text.format.schema");
  const forWorker = { type, json_schema: format };
  return { forWorker, shown: { description: null, strict: false, ...shown } };
}

function repeatedJson(valueOf: (name: string) => unknown): string {
  const members = repeated.map(([name], index) => {
    const value = valueOf(name);
    const json = isAbsent(value) ? undefined : `"${name}":${JSON.stringify(value)}`;
    return json !== undefined && json.length <= maxRepeated ? json : missingMembers[index];
  });
  return `{${members.join(",")}}`;
}
