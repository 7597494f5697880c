import { defineStep } from "sluice-gateway/plugin";

export default defineStep({
  name: "bad-schema",
  description: "Has a broken schema.",
  options: {
    type: "object",
    additionalProperties: false,
    properties: { rate: { type: "numeric" } },
  },
  start: () => ({}),
});
