/** The OpenAPI description of the estimate of tokens. */
import { operationOf } from "../messages/operation.ts";

export const countOperation = operationOf(
  "Estimate the tokens of a message",
  "A third of the bytes of all texts and tools, 8 per message, and the network's `imageTokens` per image. It is free.",
  {
    description: "The estimated number of tokens.",
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
