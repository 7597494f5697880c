/** Embeddings in OpenAI's wire format. The list of embeddings is passed on as bytes. */
import type { AnswerRenderer, CompletionApi } from "../completions/api.ts";
import { openaiErrors } from "../completions/openai-errors.ts";
import { readEmbeddingsRequest } from "./request.ts";

const renderer: AnswerRenderer = {
  native({ request }, data, { result, usedMilliCu }) {
    const { promptTokens } = result.usage;
    const usage = {
      prompt_tokens: promptTokens,
      total_tokens: promptTokens,
      usedCUMilli: usedMilliCu,
    };
    const rest = JSON.stringify({ model: request.model, usage });
    return [Buffer.from('{"object":"list","data":'), data, Buffer.from(`,${rest.slice(1)}`)];
  },
  whole: notAnswered,
  stream: notAnswered,
};

export const { renderError, renderRefusal } = openaiErrors({ noParam: null, promptParam: "input" });

export const embeddingsApi: CompletionApi = {
  method: "embeddings",
  idPrefix: "embd-",
  read(body, options) {
    return { request: readEmbeddingsRequest(body, options), session: undefined, renderer };
  },
  renderError,
};

function notAnswered(): never {
  throw new Error("embeddings are neither messages nor streams");
}
