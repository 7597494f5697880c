/** The parts of a message that whole and streamed answers share, and the answer in one piece. */
import type { ToolCall, WholeMessage } from "sluice-gateway/services";
import { isObject, parseJson } from "sluice-gateway/toolkit";
import type { Charged, Completion } from "../completions/api.ts";
import type { ReasoningSeal } from "../completions/sealed-reasoning.ts";
import type { Thinking } from "./request.ts";

/** What the renderers of an answer know about its request. */
export interface Rendering {
  readonly thinking: Thinking;
  readonly seal: ReasoningSeal;
}

/** The signature of reasoning that the client shows and sends back as it is. Clients require one. */
export const shownSignature = "shown";
/** Longer ids of tool calls are replaced, because a client keeps them and sends them back. */
const maxIdLength = 256;

/** Returns the members of a message without its result. */
export function messageHead({ id, request }: Completion): object {
  return { id, type: "message", role: "assistant", model: request.model };
}

export function stopReason({ result }: Charged, hasToolCalls: boolean): string {
  if (result.finishReason === "length") return "max_tokens";
  if (result.finishReason === "content_filter") return "refusal";
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

/** Returns the id that the worker gives a tool call, else one of the gateway. */
export function toolUseId({ id }: Completion, given: unknown, index: number): string {
  const isGiven = typeof given === "string" && given !== "" && given.length <= maxIdLength;
  return isGiven ? given : `toolu_${id.slice(id.indexOf("_") + 1)}_${index}`;
}

export function wholeMessage(
  completion: Completion,
  message: WholeMessage | undefined,
  charged: Charged,
  { thinking, seal }: Rendering,
): string {
  const { content = "", reasoningContent = "", toolCalls = [] } = message ?? {};
  const calls = toolCalls.filter(({ name }) => name !== "");
  const blocks: object[] = [];
  if (reasoningContent !== "" && thinking !== "none") {
    const isShown = thinking === "shown";
    blocks.push({
      type: "thinking",
      thinking: isShown ? reasoningContent : "",
      signature: isShown ? shownSignature : (seal.seal(reasoningContent) ?? ""),
    });
  }
  if (content !== "") blocks.push({ type: "text", text: content });
  calls.forEach(({ id, name, arguments: text }, index) => {
    blocks.push({
      type: "tool_use",
      id: toolUseId(completion, id, index),
      name,
      input: inputOf(text),
    });
  });
  return JSON.stringify({
    ...messageHead(completion),
    content: blocks,
    stop_reason: stopReason(charged, calls.length > 0),
    stop_sequence: null,
    usage: usageOf(charged),
  });
}

/**
 * Returns the input of a tool call. Arguments that are not a JSON object are kept as a text, so that the client's check
 * of its schema fails and the model gets to see them.
 */
function inputOf(text: ToolCall["arguments"]): object {
  if (text.trim() === "") return {};
  try {
    const input = parseJson(text);
    if (isObject(input)) return input;
  } catch {
    // It is not JSON, as for any other value below.
  }
  return { malformed_arguments: text };
}
