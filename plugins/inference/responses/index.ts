/** Surface `responses`: OpenAI's Responses API without state, as chat completions (decisions.md section 15). */
import { defineSurface } from "sluice-gateway/plugin";
import { isObject } from "sluice-gateway/internal/toolkit";
import { completionSurface } from "../completions/answer.ts";
import type { CompletionApi } from "../completions/api.ts";
import type { NativeApi } from "../completions/native-request.ts";
import { openaiErrors } from "../completions/openai-errors.ts";
import { createReasoningSeal } from "../completions/sealed-reasoning.ts";
import { operation } from "./operation.ts";
import { counted, nativeMembers, readResponsesRequest } from "./request.ts";

// OpenAI has null, but `@ai-sdk/open-responses` shows only messages of errors whose members are all texts.
const { renderError, renderRefusal } = openaiErrors({ noParam: "", promptParam: "input" });

/** Names of what the translation always ignores. `reasoning` in `passes` decides about the two that are left out. */
const keptNames = /^(?:input|text|reasoning)\.(?!reasoning$|effort$)/;

/** The worker stores nothing, and gets only the tools that the client runs, as in a translation. */
const native: NativeApi = {
  name: "responses",
  members: nativeMembers,
  isKept: (name) => keptNames.test(name),
  adapt({ tools, tool_choice: choice, input, ...members }, passes) {
    const own = ofTypes(tools, (type) => type === "function" || type === "custom");
    const hasReasoning = typeof input === "string" || passes.includes("reasoning");
    return {
      ...members,
      input: hasReasoning ? input : ofTypes(input, (type) => type !== "reasoning"),
      ...(own.length > 0 && { tools: own, tool_choice: choice }),
      store: false,
    };
  },
};

function ofTypes(list: unknown, isWanted: (type: unknown) => boolean): readonly unknown[] {
  return (Array.isArray(list) ? list : []).filter((one) => isObject(one) && isWanted(one["type"]));
}

export default defineSurface({
  name: "responses",
  description: "Serves OpenAI's Responses API from the workers of the inference networks.",
  needs: { charge: "answer" },
  wants: { trace: "answer" },
  uses: ["networks"],
  permissions: { deployment: ["seal"] },
  operation: () => operation,
  start(_, host) {
    const seal = createReasoningSeal(host.seal);
    const api: CompletionApi = {
      method: "responses",
      idPrefix: "resp_",
      native,
      read: (body, options) => readResponsesRequest(body, options, seal),
      renderError,
    };
    return { ...completionSurface(api, host, counted.split(" ")), renderRefusal };
  },
});
