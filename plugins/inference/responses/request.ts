/**
 * Reads a request of the Responses API and translates it into one of chat completions, which is the format of workers.
 * Unknown members of the request are ignored and named, because agents add some every few weeks. Unknown items are
 * refused, because they are content.
 */
import type { Passable, PromptOptions } from "sluice-gateway/services";
import { isAbsent, isObject } from "sluice-gateway/toolkit";
import type { ReadResult } from "../completions/api.ts";
import { IgnoredNames } from "../completions/ignored-fields.ts";
import { allPassed, maxTokenLimit, readChatRequest } from "../completions/request.ts";
import type { ReasoningSeal } from "../completions/sealed-reasoning.ts";
import { InputReader } from "./input.ts";
import {
  invalid,
  nameAt,
  needPassed,
  objectAt,
  RequestProblem,
  textAt,
  unsupported,
} from "../completions/request-problem.ts";
import { ResponseRenderer } from "./renderer.ts";
import { readTools, type ToolMembers } from "./tools.ts";

type Json = Readonly<Record<string, unknown>>;

/** Members that are read below. All others are ignored. */
const readMembers: ReadonlySet<string> = new Set(
  [
    "model input instructions stream max_output_tokens text reasoning tools tool_choice parallel_tool_calls",
    "prompt_cache_key metadata include temperature top_p presence_penalty frequency_penalty top_logprobs",
    "store background truncation previous_response_id conversation prompt n",
  ].flatMap((line) => line.split(" ")),
);

/** Names that clients often get as ignored, for metrics. */
export const countedNames: readonly string[] = [
  "client_metadata context_management include input.reasoning max_tool_calls other prompt_cache_retention",
  "reasoning.effort reasoning.summary safety_identifier service_tier store stream_options temperature",
  "text.verbosity tools.namespace tools.web_search top_logprobs top_p user",
].flatMap((line) => line.split(" "));

const sampling = {
  temperature: 1,
  top_p: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
};

/** Names of chat completions in the list of ignored fields, and their names here. */
const renamed: Readonly<Record<string, string | undefined>> = {
  reasoning_effort: "reasoning.effort",
  logprobs: "top_logprobs",
};

/** Maximum size of the request's members that the events of a response repeat, in characters of JSON. */
const maxRepeated = 64 * 1024;

export function readResponsesRequest(
  body: unknown,
  promptOptionsOf: (model: string) => PromptOptions | undefined,
  seal: ReasoningSeal,
): ReadResult {
  if (!isObject(body)) return { ok: false, message: "the body must be a JSON object" };
  try {
    return read(body, promptOptionsOf, seal);
  } catch (error) {
    if (!(error instanceof RequestProblem)) throw error;
    const { message, param, code } = error;
    return { ok: false, message, param, apiCode: code };
  }
}

function read(
  body: Json,
  promptOptionsOf: (model: string) => PromptOptions | undefined,
  seal: ReasoningSeal,
): ReadResult {
  const model = nameAt(body["model"], "model");
  refuseState(body);
  const options = promptOptionsOf(model) ?? allPassed;
  const { passes } = options;
  const ignored = new IgnoredNames();
  const instructions = optional(body, "instructions", textAt);
  const input = new InputReader(passes, ignored, seal);
  input.read(instructions, body["input"]);
  const tools = readTools(body, passes, ignored);
  const { format, shownFormat } = readFormat(body["text"], passes, ignored);
  const reasoning = readReasoning(body["reasoning"], ignored);
  const include = readInclude(body["include"], passes, ignored);
  const topLogprobs = optional(body, "top_logprobs", countUpTo(20)) ?? 0;
  const wantsLogprobs = include.logprobs || topLogprobs > 0;
  const maxTokens = optional(body, "max_output_tokens", countUpTo(maxTokenLimit, 1));
  const chat = {
    model,
    messages: input.messages,
    stream: optional(body, "stream", booleanAt) ?? false,
    ...(maxTokens !== undefined && { max_tokens: maxTokens }),
    ...readSampling(body),
    ...tools.forWorker,
    ...(format !== undefined && { response_format: format }),
    ...(wantsLogprobs && { logprobs: true, top_logprobs: topLogprobs }),
    ...(reasoning.effort !== undefined && { reasoning_effort: reasoning.effort }),
    ...(reasoning.isOn && { chat_template_kwargs: { enable_thinking: true } }),
    prompt_cache_key: optional(body, "prompt_cache_key", textAt),
  };
  const result = readChatRequest(chat, () => options);
  if (!result.ok) return result;
  for (const [name, value] of Object.entries(body)) {
    if (!readMembers.has(name) && !isAbsent(value)) ignored.add(name);
  }
  if (body["store"] === true) ignored.add("store");
  for (const name of result.request.ignored) ignored.add(renamed[name] ?? name);
  const isPassed = (part: Passable): boolean => passes.includes(part);
  const renderer = new ResponseRenderer({
    repeated: repeatedJson({
      instructions: instructions ?? null,
      tools: tools.shown,
      tool_choice: tools.shownChoice,
      parallel_tool_calls: body["parallel_tool_calls"] ?? true,
      text: { format: shownFormat },
      ...sampling,
      ...(isPassed("sampling") && readSampling(body)),
      top_logprobs: isPassed("logprobs") ? topLogprobs : 0,
      reasoning: {
        effort: isPassed("reasoning") ? (reasoning.effort ?? null) : null,
        summary: null,
      },
      max_output_tokens: maxTokens ?? null,
      metadata: readMetadata(body["metadata"]),
      prompt_cache_key: chat.prompt_cache_key ?? null,
    }),
    customTools: tools.custom,
    seal: include.sealed ? seal : undefined,
    hasLogprobs: wantsLogprobs && isPassed("logprobs"),
  });
  return { ...result, request: { ...result.request, ignored: ignored.names }, renderer };
}

/** Refuses what needs a state that the gateway does not have, and what would change the input silently. */
function refuseState(body: Json): void {
  const whole = "nothing is stored here; send the whole conversation in `input`";
  for (const name of ["previous_response_id", "conversation", "prompt"]) {
    if (!isAbsent(body[name])) throw unsupported(name, whole);
  }
  const { background, truncation, n } = body;
  if (!isAbsent(background) && background !== false) {
    throw unsupported("background", "the gateway does not run requests in the background");
  }
  if (!isAbsent(truncation) && truncation !== "disabled") {
    throw unsupported("truncation", "the gateway does not shorten the input");
  }
  if (!isAbsent(n) && n !== 1) throw unsupported("n", "a request has one response");
}

function optional<T>(
  body: Json,
  name: string,
  readValue: (value: unknown, path: string) => T,
): T | undefined {
  const value = body[name];
  return isAbsent(value) ? undefined : readValue(value, name);
}

function booleanAt(value: unknown, path: string): boolean {
  if (typeof value === "boolean") return value;
  throw invalid(path, "expected true or false");
}

function countUpTo(max: number, min = 0): (value: unknown, path: string) => number {
  return (value, path) => {
    if (Number.isInteger(value) && Number(value) >= min && Number(value) <= max) {
      return Number(value);
    }
    throw invalid(path, `expected an integer from ${min} to ${max}`);
  };
}

function readSampling(body: Json): Json {
  const given: Record<string, unknown> = {};
  for (const name of Object.keys(sampling)) {
    const value = body[name];
    if (isAbsent(value)) continue;
    if (typeof value !== "number") throw invalid(name, "expected a number");
    given[name] = value;
  }
  return given;
}

/** Returns the format for the worker, undefined for plain text. A format that is silently ignored would break agents. */
function readFormat(
  text: unknown,
  passes: readonly Passable[],
  ignored: IgnoredNames,
): { readonly format: Json | undefined; readonly shownFormat: Json } {
  const plain = { format: undefined, shownFormat: { type: "text" } };
  if (isAbsent(text)) return plain;
  const { format, ...others } = objectAt(text, "text");
  for (const [name, value] of Object.entries(others)) {
    if (!isAbsent(value)) ignored.add(`text.${name}`);
  }
  if (isAbsent(format)) return plain;
  const { type, name, schema, description, strict } = objectAt(format, "text.format");
  if (type === "text") return plain;
  if (type !== "json_object" && type !== "json_schema") {
    throw invalid("text.format.type", "expected text, json_object or json_schema");
  }
  needPassed(passes, "format", "text.format");
  if (type === "json_object") return { format: { type }, shownFormat: { type } };
  nameAt(name, "text.format.name");
  if (!isObject(schema)) throw invalid("text.format.schema", "expected a JSON schema");
  const given = { name, schema, description, strict };
  const shownFormat = {
    type,
    name,
    schema,
    description: description ?? null,
    strict: strict ?? false,
  };
  return { format: { type, json_schema: given }, shownFormat };
}

/** The model thinks if the client asks for reasoning in any way. */
function readReasoning(
  value: unknown,
  ignored: IgnoredNames,
): { readonly effort: string | undefined; readonly isOn: boolean } {
  if (isAbsent(value)) return { effort: undefined, isOn: false };
  const { effort, ...others } = objectAt(value, "reasoning");
  const given = Object.entries(others).filter(([, each]) => !isAbsent(each));
  for (const [name] of given) ignored.add(`reasoning.${name}`);
  if (isAbsent(effort)) return { effort: undefined, isOn: given.length > 0 };
  return { effort: nameAt(effort, "reasoning.effort"), isOn: effort !== "none" };
}

function readInclude(
  value: unknown,
  passes: readonly Passable[],
  ignored: IgnoredNames,
): { readonly sealed: boolean; readonly logprobs: boolean } {
  if (isAbsent(value)) return { sealed: false, logprobs: false };
  if (!Array.isArray(value)) throw invalid("include", "expected a list");
  const sealed = value.includes("reasoning.encrypted_content");
  const logprobs = passes.includes("logprobs") && value.includes("message.output_text.logprobs");
  if (value.length > Number(sealed) + Number(logprobs)) ignored.add("include");
  return { sealed, logprobs };
}

/** The limits are those of OpenAI. */
function readMetadata(value: unknown): Json {
  if (isAbsent(value)) return {};
  if (!isObject(value)) throw invalid("metadata", "expected an object");
  const entries = Object.entries(value);
  const isText = entries.every(
    ([name, each]) => name.length <= 64 && typeof each === "string" && each.length <= 512,
  );
  if (entries.length <= 16 && isText) return value;
  throw invalid("metadata", "expected at most 16 texts of at most 512 characters");
}

/**
 * Returns the members of a response that repeat the request, as JSON. Long tools and instructions are left out: several
 * events would repeat them, and they would stay in memory until the end of the answer.
 */
function repeatedJson(repeated: Json & { readonly tools: ToolMembers["shown"] }): string {
  const json = JSON.stringify(repeated);
  if (json.length <= maxRepeated) return json;
  return JSON.stringify({
    ...repeated,
    tools: [],
    instructions: null,
    text: { format: { type: "text" } },
  });
}
