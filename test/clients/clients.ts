/** The clients that the tests judge, in the order of the table in docs/recipes/agents.md. */
import { agentsSdkClients } from "./agents-sdk.ts";
import { aiSdkClients } from "./ai-sdk.ts";
import { anthropicClients } from "./anthropic.ts";
import type { Client } from "./client.ts";
import { langChainClients } from "./langchain.ts";
import { openaiClients } from "./openai.ts";

export const clients: readonly Client[] = [
  ...openaiClients,
  ...anthropicClients,
  ...aiSdkClients,
  ...langChainClients,
  ...agentsSdkClients,
];
