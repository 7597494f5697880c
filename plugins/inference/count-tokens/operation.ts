/** The OpenAPI description of counting tokens. */
import { count, header, objectOf } from "../completions/operation.ts";
import { operationOf } from "../messages/operation.ts";

export const countOperation = operationOf(
  "Count or estimate the tokens of a message",
  "The count of a worker if the network speaks `count_tokens`. Else a third of the bytes of all texts and tools, 8 per message, and the network's `imageTokens` per image. It is free.",
  {
    description: "The number of tokens.",
    content: { "application/json": objectOf({ input_tokens: count }) },
    headers: { "X-Sluice-Estimate": header("Members that are estimates.", "input_tokens") },
  },
);
