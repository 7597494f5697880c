/** A step with a required option and with options that a schema alone cannot check. */
import { defineStep } from "sluice-gateway/plugin";

export default defineStep<{ low: number; high: number }>({
  name: "quota",
  description: "Has two bounds.",
  options: {
    type: "object",
    additionalProperties: false,
    required: ["low", "high"],
    properties: { low: { type: "number" }, high: { type: "number" } },
  },
  check: ({ low, high }) =>
    low < high ? [] : [{ pointer: "/low", message: "low must be below high" }],
  start: () => ({}),
});
