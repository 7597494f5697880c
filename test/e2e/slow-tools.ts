/** Tools whose worker answers when the test opens its gate. */
import type { ToolResult } from "sluice-gateway/services";
import { defineTools } from "../../src/plugin.ts";

/** Events that the tools report to the test, which runs in the same process. */
export const worker = {
  asked: 0,
  gate: Promise.resolve(),
  onAsked: (): void => {},
};

const inputSchema = { type: "object", properties: {}, additionalProperties: false };

async function call(): Promise<ToolResult> {
  worker.asked++;
  worker.onAsked();
  await worker.gate;
  return { ok: true, value: { done: true } };
}

export default defineTools({
  name: "slow-tools",
  description: "Tools for tests.",
  start: () => ({
    tools: [
      {
        name: "slow_read",
        description: "Asks the worker.",
        inputSchema,
        price: 300,
        capability: undefined,
        call,
      },
      {
        name: "slow_write",
        description: "Asks the worker to change something.",
        inputSchema,
        price: 1000,
        capability: "ledger:write",
        write: true,
        call,
      },
    ],
  }),
});
