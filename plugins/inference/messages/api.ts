/** The Messages API as the shared call path of completions uses it. */
import type { Exchange } from "sluice-gateway/plugin";
import type { AnswerRenderer, CompletionApi } from "../completions/api.ts";
import type { ReasoningSeal } from "../completions/sealed-reasoning.ts";
import { wholeMessage, type Rendering } from "./answer.ts";
import { renderError, requestIdHeader } from "./errors.ts";
import { readMessagesRequest } from "./request.ts";
import { MessagesStream } from "./stream.ts";

export function createMessagesApi(seal: ReasoningSeal): CompletionApi {
  return {
    method: "messages",
    idPrefix: "msg_",
    read(body, promptOptionsOf, x) {
      const read = readMessagesRequest(body, x, { promptOptionsOf, seal });
      if (!read.ok) return read;
      return { ...read, renderer: rendererOf({ thinking: read.thinking, seal }, x) };
    },
    renderError,
  };
}

function rendererOf(rendering: Rendering, x: Exchange): AnswerRenderer {
  return {
    headers: requestIdHeader(x),
    whole: (completion, message, charged) => wholeMessage(completion, message, charged, rendering),
    stream: (completion) => new MessagesStream(completion, rendering),
  };
}
