/** What a change of a network's catalogue takes and answers (decisions.md section 8). */
import { modelListSchema, violationsSchema, type Operation } from "sluice-gateway/plugin";
import { bodySchema } from "./body.ts";

const text = { type: "string" };

export const operation: Operation = {
  summary: "Replace the overrides of a network's models",
  path: {
    type: "object",
    properties: { network: { description: "A configured network.", ...text } },
  },
  body: { content: { "application/json": bodySchema }, required: true },
  answers: {
    200: {
      description: "The network's models from now on",
      content: { "application/json": modelListSchema },
    },
  },
  refusals: [
    {
      code: "GATEWAY_INVALID_PARAMS",
      description: "The body is not JSON, or does not match its schema",
      details: violationsSchema(1),
    },
    { code: "GATEWAY_NOT_FOUND", description: "There is no such network" },
    { code: "GATEWAY_SERVICE_UNAVAILABLE", description: "The change could not be stored" },
  ],
};
