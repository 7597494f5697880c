/** Checks the chat surface with LangChain's `ChatOpenAI`. */
import { ChatOpenAI } from "@langchain/openai";
import { startChat } from "../plugins/inference/chat/gateway.ts";
import { testLangChain } from "../plugins/inference/completions/langchain.ts";

testLangChain({
  title: "ChatOpenAI over chat completions",
  start: () => startChat({ network: "passes: [tools, format]" }),
  modelOf: (url, apiKey, model) =>
    new ChatOpenAI({
      model,
      apiKey,
      configuration: { baseURL: `${url}/v1` },
      maxRetries: 0,
      maxTokens: 100,
    }),
  readsFailure: true,
});
