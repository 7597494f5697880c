/** Tools that the catalogue refuses, each for a different reason, and one that it accepts. */
import { defineTools } from "sluice-gateway/plugin";
import type { Tool } from "sluice-gateway/services";

const tool = (name: string, more: Partial<Tool<never>> = {}): Tool<never> => ({
  name,
  description: "A tool.",
  inputSchema: { type: "object", properties: {}, additionalProperties: false },
  price: 100,
  capability: undefined,
  call: () => ({ ok: true, value: name }),
  ...more,
});

export default defineTools({
  name: "tools",
  description: "Adds tools.",
  start: () => ({
    tools: [
      tool("good"),
      tool("good"),
      tool("no-dashes"),
      tool("list", { inputSchema: { type: "array" } }),
      tool("either", { inputSchema: { type: "object", oneOf: [{}] } }),
      tool("typo", { inputSchema: { type: "object", propertys: {} } }),
      tool("liar", { write: true, annotations: { readOnlyHint: true } }),
    ],
  }),
});
