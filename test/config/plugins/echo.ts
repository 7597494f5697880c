import { defineSurface } from "sluice-gateway/plugin";

export default defineSurface<{ text: string }>({
  name: "echo",
  description: "Answers with a text.",
  options: {
    $schema: "http://json-schema.org/draft-07/schema#",
    type: "object",
    additionalProperties: false,
    properties: {
      text: { type: "string", minLength: 1, default: "hello" },
      times: { type: "integer", minimum: 1, maximum: 5, default: 1 },
      loud: { type: "boolean" },
      level: { enum: [1, 2, "most"] },
      style: { enum: ["plain", "fancy"] },
      upstream: { type: "string", format: "upstream-name" },
      wait: { type: "string", format: "short-duration" },
      code: { type: "string", pattern: "^[A-Z]{3}$" },
      tags: { type: "array", items: { type: "string" }, uniqueItems: true, maxItems: 3 },
      target: {
        anyOf: [
          { type: "string", format: "uri" },
          {
            type: "object",
            required: ["url"],
            additionalProperties: false,
            properties: { url: { type: "string" }, port: { type: "integer" } },
          },
        ],
      },
    },
  },
  start: ({ text }) => ({ answer: () => ({ status: 200, body: text }) }),
});
