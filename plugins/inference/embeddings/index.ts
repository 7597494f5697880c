/** Surface `embeddings`: OpenAI's embeddings. The tokens of the inputs are charged. */
import { defineSurface } from "sluice-gateway/plugin";
import { completionSurface } from "../completions/answer.ts";
import { operation } from "./operation.ts";
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

const { renderError, renderRefusal } = openaiErrors({ noParam: null, promptParam: "input" });

const embeddingsApi: CompletionApi = {
  method: "embeddings",
  idPrefix: "embd-",
  read(body, options) {
    return { request: readEmbeddingsRequest(body, options), session: undefined, renderer };
  },
  renderError,
};

export default defineSurface({
  name: "embeddings",
  description: "Serves embeddings from the workers of the inference networks.",
  needs: { charge: "answer" },
  wants: { trace: "answer" },
  uses: ["networks"],
  operation: () => operation,
  start: (_, host) => ({ ...completionSurface(embeddingsApi, host, []), renderRefusal }),
});

function notAnswered(): never {
  throw new Error("embeddings are neither messages nor streams");
}
