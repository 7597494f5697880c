/** The clients that `embeddings.test.ts` judges, which the table of docs/recipes/agents.md lists. */
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { OpenAIEmbeddings } from "@langchain/openai";
import { embedMany } from "ai";
import { OpenAI } from "openai";
import type { Target } from "./client.ts";

interface Embedder {
  readonly name: string;
  /** Asks once. `tokens`: undefined if the client does not show them. */
  readonly embed: (
    target: Target,
    texts: readonly string[],
  ) => Promise<{ readonly vectors: readonly number[][]; readonly tokens?: number }>;
}

export const embedders: readonly Embedder[] = [
  {
    name: "openai",
    async embed({ url, key: apiKey, model }, texts) {
      const sdk = new OpenAI({ apiKey, baseURL: `${url}/v1`, maxRetries: 0 });
      const { data, usage } = await sdk.embeddings.create({ model, input: [...texts] });
      const vectors = data.map(({ embedding }) => [...embedding]);
      return { vectors, tokens: usage.total_tokens };
    },
  },
  {
    name: "@ai-sdk/openai-compatible",
    async embed({ url, key: apiKey, model }, values) {
      const provider = createOpenAICompatible({ name: "sluice", baseURL: `${url}/v1`, apiKey });
      const { embeddings: vectors, usage } = await embedMany({
        model: provider.embeddingModel(model),
        values: [...values],
        maxRetries: 0,
      });
      return { vectors, tokens: usage.tokens };
    },
  },
  {
    name: "@langchain/openai",
    async embed({ url, key: apiKey, model }, texts) {
      const configuration = { baseURL: `${url}/v1` };
      const chain = new OpenAIEmbeddings({ model, apiKey, configuration, maxRetries: 0 });
      return { vectors: await chain.embedDocuments([...texts]) };
    },
  },
];
