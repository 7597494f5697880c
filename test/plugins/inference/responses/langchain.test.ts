/** Checks the Responses API with LangChain's `ChatOpenAI`. */
import { ChatOpenAI } from "@langchain/openai";
import { testLangChain } from "../completions/langchain.ts";
import { startResponses } from "./gateway.ts";

testLangChain({
  title: "ChatOpenAI over the Responses API",
  start: startResponses,
  modelOf: (url, apiKey, model) =>
    new ChatOpenAI({
      model,
      apiKey,
      configuration: { baseURL: `${url}/v1` },
      useResponsesApi: true,
      maxRetries: 0,
      maxTokens: 100,
    }),
  // It does not read the event `response.failed`.
  readsFailure: false,
});
