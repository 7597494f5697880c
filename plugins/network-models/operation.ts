/**
 * What a change of a network's catalogue takes and answers (decisions.md section 8). The body is read by hand in body.ts;
 * the tests hold that and this schema against each other.
 */
import { modelListSchema, type Operation } from "sluice-gateway/plugin";
import { mostChars, mostCoefficient, mostModels } from "./body.ts";

const name = { type: "string", minLength: 1, maxLength: mostChars };

export const bodySchema = {
  type: "object",
  properties: {
    models: {
      description: "All overrides: those of an earlier request are gone. No id stands twice.",
      type: "array",
      maxItems: mostModels,
      items: {
        type: "object",
        properties: {
          id: { description: "The model's id.", ...name },
          enabled: { description: "false: it is not listed and not served.", type: "boolean" },
          owned_by: name,
          price_coefficient: {
            description: "Thousandths of the network's price, in place of each worker's own.",
            type: "integer",
            minimum: 0,
            maximum: mostCoefficient,
          },
        },
        required: ["id", "enabled"],
        additionalProperties: false,
      },
    },
  },
  required: ["models"],
};

export const operation: Operation = {
  summary: "Replace the overrides of a network's models",
  path: {
    type: "object",
    properties: { network: { description: "A configured network.", type: "string" } },
  },
  body: { content: { "application/json": bodySchema }, required: true },
  answers: {
    200: {
      description: "The network's models from now on",
      content: { "application/json": modelListSchema },
    },
  },
  refusals: [
    { code: "GATEWAY_INVALID_PARAMS", description: "The body is not of that form" },
    { code: "GATEWAY_NOT_FOUND", description: "There is no such network" },
    { code: "GATEWAY_SERVICE_UNAVAILABLE", description: "The change could not be stored" },
  ],
};
