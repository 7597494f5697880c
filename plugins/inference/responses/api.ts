/** The Responses API: how its requests are read, and its errors in OpenAI's shape (decisions.md section 15). */
import { isObject } from "sluice-gateway/toolkit";
import type { CompletionApi } from "../completions/api.ts";
import type { NativeApi } from "../completions/native-request.ts";
import { openaiErrors } from "../completions/openai-errors.ts";
import type { ReasoningSeal } from "../completions/sealed-reasoning.ts";
import { nativeMembers, readResponsesRequest } from "./request.ts";

// OpenAI has null, but `@ai-sdk/open-responses` shows only messages of errors whose members are all texts.
export const errors = openaiErrors({ noParam: "", promptParam: "input" });

/** The worker stores nothing, and gets only the tools that the client runs, as in a translation. */
const native: NativeApi = {
  name: "responses",
  members: nativeMembers,
  // The effort is ignored if the network does not pass it.
  isKept: (name) => /^(?:input|text|reasoning)\./.test(name) && name !== "reasoning.effort",
  adapt({ tools, tool_choice: choice, ...members }) {
    const own = (Array.isArray(tools) ? tools : []).filter(
      (tool: unknown) =>
        isObject(tool) && (tool["type"] === "function" || tool["type"] === "custom"),
    );
    return { ...members, ...(own.length > 0 && { tools: own, tool_choice: choice }), store: false };
  },
};

export function createResponsesApi(seal: ReasoningSeal): CompletionApi {
  return {
    method: "responses",
    idPrefix: "resp_",
    native,
    read: (body, promptOptionsOf) => readResponsesRequest(body, promptOptionsOf, seal),
    renderError: errors.renderError,
  };
}
