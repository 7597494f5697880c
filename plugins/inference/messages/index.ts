/** Surface `messages`: the Messages API of Anthropic, without state, translated to chat completions. */
import { defineSurface } from "sluice-gateway/plugin";
import { completionSurface } from "../completions/answer.ts";
import type { AnswerRenderer, CompletionApi } from "../completions/api.ts";
import { createReasoningSeal } from "../completions/sealed-reasoning.ts";
import { wholeMessage } from "./answer.ts";
import { renderError, renderRefusal, requestIdHeader } from "./errors.ts";
import { messagesOperation } from "./operation.ts";
import { nativeMessage, nativeMessages, NativeMessagesStream } from "./native.ts";
import { readMessagesRequest } from "./request.ts";
import { MessagesStream } from "./stream.ts";

const counted =
  "betas cache_control citations context_management metadata messages.content.redacted_thinking messages.content.thinking output_config.effort service_tier stop_sequences system.billing_header temperature thinking.budget_tokens tool_choice tools.eager_input_streaming top_k top_p";

export default defineSurface({
  name: "messages",
  description: "Serves the Messages API from the workers of the inference networks.",
  needs: { charge: "answer" },
  wants: { trace: "answer", requestId: "answer" },
  uses: ["networks"],
  permissions: { deployment: ["seal"] },
  operation: () => messagesOperation,
  start(_, host) {
    const seal = createReasoningSeal(host.seal);
    const api: CompletionApi = {
      method: "messages",
      idPrefix: "msg_",
      native: nativeMessages,
      read(body, options, x) {
        const read = readMessagesRequest(body, x, { options, seal });
        const rendering = { thinking: read.thinking, seal };
        const renderer: AnswerRenderer = {
          headers: requestIdHeader(x),
          whole: wholeMessage(rendering),
          native: nativeMessage,
          stream: (completion) =>
            completion.request.api === undefined
              ? new MessagesStream(completion, rendering)
              : new NativeMessagesStream(completion),
        };
        return { ...read, renderer };
      },
      renderError,
    };
    return { ...completionSurface(api, host, counted.split(" ")), renderRefusal };
  },
});
