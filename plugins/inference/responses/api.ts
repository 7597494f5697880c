/** The Responses API: how its requests are read, and its errors in OpenAI's shape (decisions.md section 15). */
import type { CompletionApi } from "../completions/api.ts";
import { openaiErrors } from "../completions/openai-errors.ts";
import type { ReasoningSeal } from "../completions/sealed-reasoning.ts";
import { nativeResponses } from "./native.ts";
import { readResponsesRequest } from "./request.ts";

// OpenAI has null, but `@ai-sdk/open-responses` shows only messages of errors whose members are all texts.
export const errors = openaiErrors({ noParam: "", promptParam: "input" });

export function createResponsesApi(seal: ReasoningSeal): CompletionApi {
  return {
    method: "responses",
    idPrefix: "resp_",
    native: nativeResponses,
    read: (body, promptOptionsOf) => readResponsesRequest(body, promptOptionsOf, seal),
    renderError: errors.renderError,
  };
}
