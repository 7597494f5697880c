/** Reads a request of the Messages API: translates it to a chat request, which is then measured and written. */
import type { Exchange } from "sluice-gateway/plugin";
import type { PromptOptions } from "sluice-gateway/services";
import { isAbsent, isObject, parseJson } from "sluice-gateway/toolkit";
import { maxTokenLimit, readChatRequest, type CompletionRequest } from "../completions/request.ts";
import type { ReasoningSeal } from "../completions/sealed-reasoning.ts";
import type { SessionHints } from "../session-key.ts";
import { Conversation } from "./conversation.ts";
import { IgnoredNames } from "./ignored-names.ts";
import {
  invalid,
  InvalidRequest,
  listAt,
  nameAt,
  notPassed,
  objectAt,
  stringAt,
  type Json,
  type Reading,
} from "./reading.ts";
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
const samplingMembers = ["temperature", "top_p", "top_k"] as const;
const translated: ReadonlySet<string> = new Set([
  "model",
  "messages",
  "system",
  "max_tokens",
  "stream",
  "tools",
  "tool_choice",
  "stop_sequences",
  "thinking",
  "output_config",
  "output_format",
  "container",
  "mcp_servers",
  ...samplingMembers,
]);
/** Efforts of the API that workers have another name for. */
const efforts: ReadonlyMap<unknown, string> = new Map([
  ["low", "low"],
  ["medium", "medium"],
  ["high", "high"],
  ["xhigh", "high"],
  ["max", "high"],
]);
/** The request for a model that no network lists is refused later, with its own error. */
const everything: PromptOptions = {
  passes: ["tools", "sampling", "format", "images", "reasoning"],
  imageTokens: 0,
  contextTokens: undefined,
};

export function readMessagesRequest(
  body: unknown,
  x: Exchange,
  options: ReadOptions,
): MessagesRequest {
  try {
    return read(objectAt(body, "body"), x, options);
  } catch (error) {
    if (error instanceof InvalidRequest) return { ok: false, message: error.message };
    throw error;
  }
}

function read(
  body: Json,
  { request: { headers } }: Exchange,
  { promptOptionsOf, seal, isCounted = false }: ReadOptions,
): MessagesRequest {
  const model = nameAt(body["model"], "model");
  const prompt = promptOptionsOf(model) ?? everything;
  const ignored = new IgnoredNames();
  const reading: Reading = {
    passes: prompt.passes,
    isStrict: headers["anthropic-version"] === strictVersion,
    ignored,
    openReasoning: (sealed) => seal.open(sealed),
  };
  if (headers["anthropic-beta"] !== undefined) ignored.add("betas");
  const conversation = new Conversation(reading);
  const maxTokens = isCounted ? 1 : readMaxTokens(body["max_tokens"]);
  const { thinking, isEnabled } = readThinking(body["thinking"], ignored);
  const messages = conversation.read(body["system"], body["messages"]);
  const chat = {
    model,
    messages,
    max_tokens: maxTokens,
    stream: readStream(body["stream"]),
    chat_template_kwargs: { enable_thinking: isEnabled },
    ...readTools(body, conversation.referencedTools, reading),
    ...readOutput(body, reading),
    ...readSampling(body, reading),
  };
  noteUnknown(body, ignored);
  const result = readChatRequest(chat, () => prompt);
  // Everything that it checks was checked before.
  if (!result.ok) throw new InvalidRequest("the request is not valid");
  const { request, session } = result;
  return {
    ok: true,
    request: { ...request, ignored: ignored.list() },
    session: { ...session, name: sessionOf(body["metadata"]) },
    thinking,
  };
}

function readMaxTokens(value: unknown): number {
  if (typeof value === "number" && Number.isInteger(value) && value > 0 && value <= maxTokenLimit) {
    return value;
  }
  throw invalid("max_tokens", `expected an integer from 1 to ${maxTokenLimit}`);
}

function readStream(value: unknown): boolean {
  if (isAbsent(value)) return false;
  if (typeof value !== "boolean") throw invalid("stream", "expected a boolean");
  return value;
}

function readThinking(
  value: unknown,
  ignored: IgnoredNames,
): { readonly thinking: Thinking; readonly isEnabled: boolean } {
  if (isAbsent(value)) return { thinking: "none", isEnabled: false };
  const { type, display, budget_tokens: budget } = objectAt(value, "thinking");
  if (!isAbsent(budget)) ignored.add("thinking.budget_tokens");
  if (type === "disabled") return { thinking: "none", isEnabled: false };
  if (type !== "enabled" && type !== "adaptive") {
    throw invalid("thinking.type", "expected adaptive, enabled or disabled");
  }
  return { thinking: display === "omitted" ? "sealed" : "shown", isEnabled: true };
}

/** The format and the effort of the answer. */
function readOutput(body: Json, { passes, ignored }: Reading): Json {
  const output = isAbsent(body["output_config"])
    ? {}
    : objectAt(body["output_config"], "output_config");
  const { format, effort } = output;
  const isOld = isAbsent(format) && !isAbsent(body["output_format"]);
  const path = isOld ? "output_format" : "output_config.format";
  const wanted = isOld ? body["output_format"] : format;
  const known = passes.includes("reasoning") ? efforts.get(effort) : undefined;
  if (!isAbsent(effort) && known === undefined) ignored.add("output_config.effort");
  for (const name of Object.keys(output)) {
    if (name !== "format" && name !== "effort") ignored.addUnknown(`output_config.${name}`);
  }
  return {
    ...(known !== undefined && { reasoning_effort: known }),
    ...(!isAbsent(wanted) && { response_format: readFormat(wanted, path, passes) }),
  };
}

function readFormat(value: unknown, path: string, passes: Reading["passes"]): Json {
  if (!passes.includes("format")) throw notPassed(path, "format");
  const format = objectAt(value, path);
  if (format["type"] !== "json_schema") throw invalid(`${path}.type`, "expected json_schema");
  const schema = objectAt(format["schema"], `${path}.schema`);
  return { type: "json_schema", json_schema: { name: "answer", schema, strict: true } };
}

function readSampling(body: Json, { passes, isStrict, ignored }: Reading): Json {
  const passed: Record<string, unknown> = {};
  const keep = (
    name: "stop_sequences" | (typeof samplingMembers)[number],
    value: unknown,
  ): void => {
    if (passes.includes("sampling")) passed[name === "stop_sequences" ? "stop" : name] = value;
    else ignored.add(name);
  };
  for (const name of samplingMembers) {
    const value = body[name];
    if (isAbsent(value)) continue;
    if (isStrict) throw invalid(name, "Extra inputs are not permitted");
    if (typeof value !== "number") throw invalid(name, "expected a number");
    keep(name, value);
  }
  const { stop_sequences: stop } = body;
  if (isAbsent(stop)) return passed;
  const sequences = listAt(stop, "stop_sequences").map((one, index) =>
    stringAt(one, `stop_sequences.${index}`),
  );
  if (sequences.length > 0) keep("stop_sequences", sequences);
  return passed;
}

/** Members with state on the server are refused, all others are named: agents add new ones every few weeks. */
function noteUnknown(body: Json, ignored: IgnoredNames): void {
  for (const name of ["container", "mcp_servers"]) {
    const value = body[name];
    if (isAbsent(value) || (Array.isArray(value) && value.length === 0)) continue;
    throw invalid(name, "is not supported, because models here run no tools by themselves");
  }
  for (const name of Object.keys(body)) {
    if (!translated.has(name) && !isAbsent(body[name])) ignored.addUnknown(name);
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
