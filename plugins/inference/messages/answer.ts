import { callId } from "../completions/answer-parts.ts";
import type { AnswerRenderer, Charged, Completion } from "../completions/api.ts";
import { readObject } from "../read-json.ts";
import type { ReasoningSeal } from "../completions/sealed-reasoning.ts";
import type { Thinking } from "./request.ts";

export interface Rendering {
  readonly thinking: Thinking;
  readonly seal: ReasoningSeal;
}

/** Longer ids of tool calls, and those that occur twice, are replaced, because a client keeps them and sends them back. */
const maxIdLength = 256;

export function messageHead({ id, request }: Completion): object {
  return { id, type: "message", role: "assistant", model: request.model };
}

export function stopReason({ result }: Charged, hasToolCalls: boolean, isRefused = false): string {
  if (result.finishReason === "length") return "max_tokens";
  if (result.finishReason === "content_filter" || isRefused) return "refusal";
  return hasToolCalls ? "tool_use" : "end_turn";
}

/** `input_tokens` does not include the cached tokens (agents.md section 7). `usedCUMilli`: the charge. */
export function usageOf({ result, usedMilliCu }: Charged): object {
  const { promptTokens, completionTokens, cachedTokens = 0 } = result.usage;
  return {
    input_tokens: promptTokens - cachedTokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cachedTokens,
    output_tokens: completionTokens,
    usedCUMilli: usedMilliCu,
  };
}

/** Returns the id that the worker gives a tool call, else one made of `id`, that of the message. */
export function toolUseId(id: string, given: unknown, index: number, used: Set<string>): string {
  return callId(given, maxIdLength, `toolu_${id.slice("msg_".length)}_${index}`, used);
}

/** Clients require a signature, but only sealed reasoning needs it. */
export function signatureOf(reasoning: string, { thinking, seal }: Rendering): string {
  return thinking === "shown" ? "shown" : (seal.seal(reasoning) ?? "");
}

export function wholeMessage(rendering: Rendering): AnswerRenderer["whole"] {
  return (completion, message, charged) => {
    const { content: said = "", refusal, reasoningContent = "", toolCalls = [] } = message ?? {};
    const content: string[] = [];
    if (reasoningContent !== "" && rendering.thinking !== "none") {
      const thinking = rendering.thinking === "shown" ? reasoningContent : "";
      const signature = signatureOf(reasoningContent, rendering);
      content.push(JSON.stringify({ type: "thinking", thinking, signature }));
    }
    for (const text of [said, refusal ?? ""]) {
      if (text !== "") content.push(JSON.stringify({ type: "text", text }));
    }
    const calls = toolCalls.filter(({ name }) => name !== "");
    const used = new Set<string>();
    calls.forEach(({ id, name, arguments: given }, index) => {
      const block = { type: "tool_use", id: toolUseId(completion.id, id, index, used), name };
      content.push(withMember(block, "input", inputOf(given)));
    });
    const stop_reason = stopReason(charged, calls.length > 0, refusal !== undefined);
    const rest = { stop_reason, stop_sequence: null, usage: usageOf(charged) };
    const members = { ...messageHead(completion), ...rest };
    return withMember(members, "content", `[${content.join(",")}]`);
  };
}

/** `members` has at least one member. `json`: the value of the new one. */
export function withMember(members: object, name: string, json: string): string {
  return `${JSON.stringify(members).slice(0, -1)},"${name}":${json}}`;
}

/**
 * Returns the JSON as the model wrote it, so that numbers keep their digits. Arguments that are not a JSON object are
 * kept as a text, so that the client's check of its schema fails and the model gets to see them.
 */
function inputOf(text: string): string {
  if (text.trim() === "") return "{}";
  return readObject(text) === undefined ? JSON.stringify({ malformed_arguments: text }) : text;
}
