import { defineTools } from "sluice-gateway/plugin";

export default defineTools({
  name: "good-tools",
  description: "Adds a tool.",
  start: () => ({
    tools: [
      {
        name: "test_echo",
        description: "Answers its input.",
        inputSchema: { type: "object" },
        price: 100,
        capability: undefined,
        call: (input: object) => ({ ok: true, value: input }),
      },
    ],
  }),
});
