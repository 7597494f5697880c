/** The OpenAPI description of a change to the catalogue of a network (decisions.md section 8). */
import { violationsSchema, type Operation } from "sluice-gateway/plugin";
import { modelListSchema } from "sluice-gateway/services";
import { bodySchema } from "./read-overrides.ts";

const text = { type: "string" };

export const operation: Operation = {
  summary: "Replace the overrides of a network's models",
  path: {
    type: "object",
    properties: { network: { description: "Name of a configured network.", ...text } },
  },
  body: { content: { "application/json": bodySchema }, required: true },
  answers: {
    200: {
      description: "The new list of models of the network.",
      content: { "application/json": modelListSchema },
    },
  },
  refusals: [
    {
      code: "GATEWAY_INVALID_PARAMS",
      description: "The body is not JSON, or it does not match its schema.",
      details: violationsSchema(1),
    },
    { code: "GATEWAY_NOT_FOUND", description: "The network does not exist." },
    { code: "GATEWAY_SERVICE_UNAVAILABLE", description: "The change could not be stored." },
  ],
};
