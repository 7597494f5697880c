/** The Responses API: how its requests are read, and its errors in OpenAI's shape (decisions.md section 15). */
import { isObject } from "sluice-gateway/toolkit";
import type { CompletionApi } from "../completions/api.ts";
import type { NativeApi } from "../completions/native-request.ts";
import { openaiErrors } from "../completions/openai-errors.ts";
import type { ReasoningSeal } from "../completions/sealed-reasoning.ts";
import { nativeMembers, readResponsesRequest } from "./request.ts";

// OpenAI has null, but `@ai-sdk/open-responses` shows only messages of errors whose members are all texts.
export const errors = openaiErrors({ noParam: "", promptParam: "input" });

/** Names of what the translation always ignores. `reasoning` in `passes` decides about the two that are left out. */
const keptNames = /^(?:input|text|reasoning)\.(?!reasoning$|effort$)/;

/** The worker stores nothing, and gets only the tools that the client runs, as in a translation. */
const native: NativeApi = {
  name: "responses",
  members: nativeMembers,
  isKept: (name) => keptNames.test(name),
  adapt({ tools, tool_choice: choice, input, ...members }, passes) {
    const own = listOf(tools).filter(
      (tool) => isObject(tool) && (tool["type"] === "function" || tool["type"] === "custom"),
    );
    const hasReasoning = typeof input === "string" || passes.includes("reasoning");
    return {
      ...members,
      input: hasReasoning ? input : listOf(input).filter((item) => !isReasoning(item)),
      ...(own.length > 0 && { tools: own, tool_choice: choice }),
      store: false,
    };
  },
};

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function isReasoning(item: unknown): boolean {
  return isObject(item) && item["type"] === "reasoning";
}

export function createResponsesApi(seal: ReasoningSeal): CompletionApi {
  return {
    method: "responses",
    idPrefix: "resp_",
    native,
    read: (body, options) => readResponsesRequest(body, options, seal),
    renderError: errors.renderError,
  };
}
