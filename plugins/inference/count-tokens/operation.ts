/** The OpenAPI description of counting tokens. */
import { operationOf } from "../messages/operation.ts";

export const countOperation = operationOf(
  "Count or estimate the tokens of a message",
  "The count of a worker if the network speaks `count_tokens`. Else a third of the bytes of all texts and tools, 8 per message, and the network's `imageTokens` per image. It is free.",
  {
    description: "The number of tokens.",
    content: {
      "application/json": {
        type: "object",
        properties: { input_tokens: { type: "integer", minimum: 0 } },
        required: ["input_tokens"],
      },
    },
    headers: {
      "X-Sluice-Estimate": {
        description: "Members that are estimates.",
        schema: { type: "string", examples: ["input_tokens"] },
      },
    },
  },
);
