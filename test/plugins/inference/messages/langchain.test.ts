/** Checks the Messages API with LangChain's `ChatAnthropic`. */
import { ChatAnthropic } from "@langchain/anthropic";
import { testLangChain } from "../completions/langchain.ts";
import { startMessages } from "./gateway.ts";

testLangChain({
  title: "ChatAnthropic",
  start: startMessages,
  modelOf: (anthropicApiUrl, apiKey, model) =>
    new ChatAnthropic({ model, apiKey, anthropicApiUrl, maxRetries: 0, maxTokens: 100 }),
  readsFailure: true,
});
