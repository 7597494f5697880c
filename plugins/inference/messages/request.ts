/** Reads a request of the Messages API: translates it to a chat request, which is then measured and written. */
import type { Exchange } from "sluice-gateway/plugin";
import type { PromptOptions } from "sluice-gateway/services";
import { isAbsent, isObject, parseJson } from "sluice-gateway/toolkit";
import { IgnoredNames } from "../completions/ignored-fields.ts";
import { maxTokenLimit, readChatRequest, type CompletionRequest } from "../completions/request.ts";
import type { ReasoningSeal } from "../completions/sealed-reasoning.ts";
import type { SessionHints } from "../session-key.ts";
import * as check from "../completions/check.ts";
import type { Json } from "../completions/check.ts";
import { Conversation, type Reading } from "./conversation.ts";
import { readTools } from "./tools.ts";

/** What the client gets of the model's reasoning: nothing, only sealed text that it sends back, or the text. */
export type Thinking = "none" | "sealed" | "shown";

export type MessagesRequest =
  | {
      readonly ok: true;
      readonly request: CompletionRequest;
      readonly session: SessionHints;
      readonly thinking: Thinking;
    }
  | { readonly ok: false; readonly message: string };

interface ReadOptions {
  readonly promptOptionsOf: (model: string) => PromptOptions | undefined;
  readonly seal: ReasoningSeal;
  /** True if `max_tokens` is not needed, because the tokens are only counted. */
  readonly isCounted?: boolean;
}

/** Every other version, and none, is 2023-06-01 (decisions.md section 15). */
const strictVersion = "2026-10-21";
const sampling = ["temperature", "top_p", "top_k"];
/** Members that are translated or refused. All others are ignored: agents add new ones every few weeks. */
const known: ReadonlySet<string> = new Set(
  "model messages system max_tokens stream tools tool_choice stop_sequences thinking output_config output_format container mcp_servers"
    .split(" ")
    .concat(sampling),
);
/** The efforts of the API and the names that workers have for them. */
const efforts: ReadonlyMap<unknown, string> = new Map([
  ...["low", "medium", "high"].map((effort) => [effort, effort] as const),
  ...["xhigh", "max"].map((effort) => [effort, "high"] as const),
]);
/** The request for a model that no network lists is refused later, with its own error. */
const everything: PromptOptions = {
  passes: ["tools", "sampling", "format", "images", "reasoning"],
  imageTokens: 0,
  contextTokens: undefined,
};

/** `body`: the parsed JSON. */
export function readMessagesRequest(
  body: unknown,
  x: Exchange,
  options: ReadOptions,
): MessagesRequest {
  try {
    return read(check.object(body, "body"), x.request.headers, options);
  } catch (error) {
    if (error instanceof check.InvalidRequest) return { ok: false, message: error.message };
    throw error;
  }
}

function read(
  body: Json,
  headers: Exchange["request"]["headers"],
  { promptOptionsOf, seal, isCounted = false }: ReadOptions,
): MessagesRequest {
  const model = check.name(body["model"], "model");
  const prompt = promptOptionsOf(model) ?? everything;
  const ignored = new IgnoredNames();
  if (headers["anthropic-beta"] !== undefined) ignored.add("betas");
  const isStrict = headers["anthropic-version"] === strictVersion;
  const openReasoning = (sealed: string): string | undefined => seal.open(sealed);
  const reading: Reading = { passes: prompt.passes, isStrict, ignored, openReasoning };
  const conversation = new Conversation(reading);
  const thinking = readThinking(body["thinking"], ignored);
  const chat = {
    model,
    max_tokens: isCounted ? 1 : readMaxTokens(body["max_tokens"]),
    stream: readStream(body["stream"]),
    messages: conversation.read(body["system"], body["messages"]),
    chat_template_kwargs: { enable_thinking: thinking !== "none" },
    ...readTools(body, conversation.referencedTools, reading),
    ...readOutput(body, reading),
    ...readSampling(body, reading),
  };
  noteOthers(body, ignored);
  const result = readChatRequest(chat, () => prompt);
  // Everything that it checks was checked before.
  if (!result.ok) return { ok: false, message: "the request is not valid" };
  const { request, session } = result;
  return {
    ok: true,
    request: { ...request, ignored: ignored.names },
    session: { ...session, name: sessionOf(body["metadata"]) },
    thinking,
  };
}

function readMaxTokens(value: unknown): number {
  const isValid = typeof value === "number" && Number.isInteger(value) && value > 0;
  if (isValid && value <= maxTokenLimit) return value;
  return check.fail("max_tokens", `expected an integer from 1 to ${maxTokenLimit}`);
}

function readStream(value: unknown): boolean {
  const stream = value ?? false;
  return typeof stream === "boolean" ? stream : check.fail("stream", "expected a boolean");
}

function readThinking(value: unknown, ignored: IgnoredNames): Thinking {
  const {
    type,
    display,
    budget_tokens: budget,
  } = check.object(value ?? { type: "disabled" }, "thinking");
  if (!isAbsent(budget)) ignored.add("thinking.budget_tokens");
  if (type === "disabled") return "none";
  if (type === "enabled" || type === "adaptive") return display === "omitted" ? "sealed" : "shown";
  return check.unknownType("thinking.type", type, "adaptive, enabled or disabled");
}

/** Reads the format and the effort of the answer. */
function readOutput(body: Json, { passes, ignored }: Reading): Json {
  const { format, effort, ...others } = check.object(body["output_config"] ?? {}, "output_config");
  const passedEffort = passes.includes("reasoning") ? efforts.get(effort) : undefined;
  if (!isAbsent(effort) && passedEffort === undefined) ignored.add("output_config.effort");
  for (const name of Object.keys(others)) ignored.add(`output_config.${name}`);
  const path = isAbsent(format) ? "output_format" : "output_config.format";
  const wanted = format ?? body["output_format"];
  return {
    ...(passedEffort !== undefined && { reasoning_effort: passedEffort }),
    ...(!isAbsent(wanted) && { response_format: readFormat(wanted, path, passes) }),
  };
}

function readFormat(value: unknown, path: string, passes: Reading["passes"]): Json {
  if (!passes.includes("format")) check.notPassed(path, "format");
  const { type, schema: given } = check.object(value, path);
  if (type !== "json_schema") check.unknownType(`${path}.type`, type, "json_schema");
  const schema = check.object(given, `${path}.schema`);
  return { type: "json_schema", json_schema: { name: "answer", schema, strict: true } };
}

function readSampling(body: Json, { passes, isStrict, ignored }: Reading): Json {
  const given = sampling.filter((name) => !isAbsent(body[name]));
  for (const name of given) {
    if (isStrict) check.fail(name, "Extra inputs are not permitted");
    if (typeof body[name] !== "number") check.fail(name, "expected a number");
  }
  const stop = check.list(body["stop_sequences"] ?? [], "stop_sequences");
  stop.forEach((one, index) => check.text(one, `stop_sequences.${index}`));
  if (passes.includes("sampling")) {
    const passed = Object.fromEntries(given.map((name) => [name, body[name]]));
    return stop.length === 0 ? passed : { ...passed, stop };
  }
  for (const name of stop.length === 0 ? given : [...given, "stop_sequences"]) ignored.add(name);
  return {};
}

function noteOthers(body: Json, ignored: IgnoredNames): void {
  for (const name of ["container", "mcp_servers"]) {
    if (isAbsent(body[name]) || (Array.isArray(body[name]) && body[name].length === 0)) continue;
    check.fail(name, "is not supported, because models here run no tools by themselves");
  }
  for (const name of Object.keys(body)) {
    if (!known.has(name) && !isAbsent(body[name])) ignored.add(name);
  }
}

/** Claude Code writes the id of its session into the id of the user, as JSON. */
function sessionOf(metadata: unknown): unknown {
  const user = isObject(metadata) ? metadata["user_id"] : undefined;
  if (typeof user !== "string" || !user.startsWith("{")) return undefined;
  try {
    const named = parseJson(user);
    return isObject(named) ? named["session_id"] : undefined;
  } catch {
    return undefined;
  }
}
