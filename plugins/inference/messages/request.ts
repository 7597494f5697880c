import type { Exchange } from "sluice-gateway/plugin";
import type { PromptOptions } from "sluice-gateway/services";
import { isAbsent, isObject } from "sluice-gateway/internal/toolkit";
import { readObject } from "../read-json.ts";
import { IgnoredNames } from "../completions/ignored-fields.ts";
import {
  allPassed,
  maxTokenLimit,
  readChatRequest,
  type ReadRequest,
} from "../completions/request.ts";
import * as check from "../completions/check.ts";
import { workerEfforts } from "../completions/passed-fields.ts";
import type { ReasoningSeal } from "../completions/sealed-reasoning.ts";
import type { Json } from "../completions/check.ts";
import { MessagesReader, type Reading } from "./conversation.ts";
import { readTools } from "./tools.ts";

/** The form in which the client gets the model's reasoning: none, sealed text that it sends back, or plain text. */
export type Thinking = "none" | "sealed" | "shown";

export interface MessagesRequest extends ReadRequest {
  readonly thinking: Thinking;
}

interface ReadOptions {
  readonly options: PromptOptions | undefined;
  readonly seal: ReasoningSeal;
  /** True if `max_tokens` is not needed, because the tokens are only counted. */
  readonly isCounted?: boolean;
}

/** Every other version, and none, is 2023-06-01 (decisions.md section 15). */
const strictVersion = "2026-10-21";
const readMaxTokens = check.integer(1, maxTokenLimit);
const sampling = ["temperature", "top_p", "top_k"];
/** Members that are translated or refused. All others are ignored: agents add new ones every few weeks. */
export const known: readonly string[] =
  "model messages system max_tokens stream tools tool_choice stop_sequences thinking output_config output_format container mcp_servers"
    .split(" ")
    .concat(sampling);
/** Names of chat completions in the list of ignored members, and their names here. */
const renamed: ReadonlyMap<string, string> = new Map([
  ["messages.reasoning_content", "messages.content.thinking"],
  ["reasoning_effort", "output_config.effort"],
  ["stop", "stop_sequences"],
]);

export function readMessagesRequest(
  body: Json,
  { request: { headers } }: Exchange,
  { options = allPassed, seal, isCounted = false }: ReadOptions,
): MessagesRequest {
  const ignored = new IgnoredNames();
  if (headers["anthropic-beta"] !== undefined) ignored.add("betas");
  const isStrict = headers["anthropic-version"] === strictVersion;
  const reading: Reading = { passes: options.passes, isStrict, ignored, seal };
  const conversation = new MessagesReader(reading);
  const thinking = readThinking(body["thinking"], ignored);
  const chat = {
    model: body["model"],
    max_tokens: isCounted ? 1 : readMaxTokens(body["max_tokens"], "max_tokens"),
    stream: check.boolean(body["stream"] ?? false, "stream"),
    messages: conversation.read(body["system"], body["messages"]),
    chat_template_kwargs: { enable_thinking: thinking !== "none" },
    ...readTools(body, conversation.referencedTools, reading),
    ...readOutput(body, reading),
    ...readSampling(body, reading),
  };
  const translated = readChatRequest(chat, options);
  for (const name of translated.request.ignored) ignored.add(renamed.get(name) ?? name);
  noteOthers(body, ignored);
  const request = { ...translated.request, ignored: ignored.names };
  const session = { ...translated.session, name: sessionOf(body["metadata"]) };
  return { request, session, thinking };
}

function readThinking(value: unknown, ignored: IgnoredNames): Thinking {
  const given = check.object(value ?? { type: "disabled" }, "thinking");
  const { type, display } = given;
  if (!isAbsent(given["budget_tokens"])) ignored.add("thinking.budget_tokens");
  if (type === "disabled") return "none";
  if (type === "enabled" || type === "adaptive") return display === "omitted" ? "sealed" : "shown";
  throw check.unknownType("thinking.type", type, "adaptive, enabled or disabled");
}

function readOutput(body: Json, { passes, ignored }: Reading): Json {
  const { format, effort, ...others } = check.object(body["output_config"] ?? {}, "output_config");
  if (!isAbsent(effort) && !workerEfforts.has(effort)) ignored.add("output_config.effort");
  for (const name of Object.keys(others)) ignored.addChosen(`output_config.${name}`);
  const path = isAbsent(format) ? "output_format" : "output_config.format";
  const wanted = format ?? body["output_format"];
  return {
    reasoning_effort: workerEfforts.get(effort),
    ...(!isAbsent(wanted) && { response_format: readFormat(wanted, path, passes) }),
  };
}

function readFormat(value: unknown, path: string, passes: Reading["passes"]): Json {
  check.needPassed(passes, "format", path);
  const { type, schema: given } = check.object(value, path);
  if (type !== "json_schema") throw check.unknownType(`${path}.type`, type, "json_schema");
  const schema = check.object(given, `${path}.schema`);
  return { type: "json_schema", json_schema: { name: "answer", schema, strict: true } };
}

function readSampling(body: Json, { isStrict }: Reading): Json {
  const given = sampling.filter((name) => !isAbsent(body[name]));
  for (const name of given) {
    if (isStrict) throw check.fail(name, "Extra inputs are not permitted");
    check.number(body[name], name);
  }
  const stop = check.list(body["stop_sequences"] ?? [], "stop_sequences");
  stop.forEach((one, index) => check.text(one, `stop_sequences.${index}`));
  const passed = Object.fromEntries(given.map((name) => [name, body[name]]));
  return stop.length === 0 ? passed : { ...passed, stop };
}

function noteOthers(body: Json, ignored: IgnoredNames): void {
  for (const name of ["container", "mcp_servers"]) {
    if (isAbsent(body[name]) || (Array.isArray(body[name]) && body[name].length === 0)) continue;
    throw check.fail(name, "is not supported, because models here run no tools by themselves");
  }
  ignored.addOthers(body, known, "");
}

/** Claude Code writes the id of its session into the id of the user, as JSON. */
function sessionOf(metadata: unknown): unknown {
  const user = isObject(metadata) ? metadata["user_id"] : undefined;
  return typeof user === "string" ? readObject(user)?.["session_id"] : undefined;
}
