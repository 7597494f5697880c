/** Fifteen small tools for the MCP benchmark. The first one returns its input text. */
import { defineTools } from "../../src/plugin.ts";

export const toolNames: readonly string[] = Array.from({ length: 15 }, (_, at) => `bench_${at}`);

export const inputSchema = {
  type: "object",
  properties: { text: { type: "string", description: "What to answer." } },
  required: ["text"],
  additionalProperties: false,
} as const;

export default defineTools({
  name: "mcp-tools",
  description: "Tools of the benchmark.",
  start: () => ({
    tools: toolNames.map((name) => ({
      name,
      description: `Answers with its text: ${name}.`,
      inputSchema,
      price: 100,
      capability: undefined,
      call: (input: { readonly text: string }) => ({ ok: true, value: { text: input.text } }),
    })),
  }),
});
