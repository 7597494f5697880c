/** A tool as a third party ships it: JavaScript in its own package, written against the published contract. */
import { defineTools } from "sluice-gateway/plugin";
import { toolFailure } from "sluice-gateway/services";

export default defineTools({
  name: "acme",
  description: "Acme's tools.",
  options: {
    type: "object",
    properties: { greeting: { type: "string" } },
    additionalProperties: false,
  },
  start: ({ greeting = "hello" }) => ({
    tools: [
      {
        name: "acme_greet",
        description: "Greets someone.",
        inputSchema: {
          type: "object",
          properties: { name: { type: "string" } },
          required: ["name"],
        },
        price: { estimateMilliCu: 10, of: ({ name }) => 10 * name.length },
        capability: "docs:read",
        annotations: { readOnlyHint: true },
        call: async ({ name }, { principal }) =>
          name === "nobody"
            ? toolFailure("GATEWAY_NOT_FOUND", "there is nobody")
            : {
                ok: true,
                value: { text: `${greeting} ${name}`, workspace: principal.workspace.name },
              },
      },
    ],
  }),
});
