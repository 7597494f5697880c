/** A tool that changes something: it asks an upstream of the campaign, which counts what was done. */
import { toolFailure, type Tool } from "sluice-gateway/services";
import { defineTools } from "../../../src/plugin.ts";

interface Options {
  readonly url: string;
}

interface Input {
  readonly to: string;
}

export default defineTools<Options>({
  name: "transfer-tool",
  description: "A write tool for the campaign.",
  options: {
    type: "object",
    properties: { url: { type: "string", description: "URL of the upstream." } },
    required: ["url"],
    additionalProperties: false,
  },
  start: ({ url }) => ({ tools: [transfer(url)] }),
});

function transfer(url: string): Tool<Input> {
  return {
    name: "transfer",
    description: "Transfers something.",
    inputSchema: {
      type: "object",
      properties: { to: { type: "string" } },
      required: ["to"],
      additionalProperties: false,
    },
    price: 100,
    capability: "ledger:write",
    write: true,
    summarise: (input) => Promise.resolve({ ok: true, summary: { input } }),
    async call({ to }, { signal }) {
      const response = await fetch(`${url}/${to}`, { method: "POST", signal });
      await response.text();
      if (response.ok) return { ok: true, value: { to } };
      return toolFailure("GATEWAY_TOOL_EXECUTION_ERROR", "the upstream did not answer");
    },
  };
}
