import { defineService } from "../../../src/plugin.ts";

export default defineService({
  name: "remote-shelf",
  description: "A shelf at another server.",
  options: {
    type: "object",
    properties: { url: { type: "string" }, size: { type: "integer" } },
    required: ["url", "size"],
    additionalProperties: false,
  },
  start: () => ({ service: {} }),
});
