/** Tools for the tests of `/rpc`, with one tool for each way in which a call can end. */
import { toolFailure, type Tool, type ToolResult } from "sluice-gateway/services";
import { defineTools } from "../../src/plugin.ts";

/** The calls that the tools received, for the test, which runs in the same process. */
export const seen = {
  hanging: 0,
  aborted: 0,
  writes: [] as unknown[],
};

const open = { type: "object", properties: {} };

/** A tool that costs 100 milli-CU and needs no capability or service. */
function of(name: string, more: Partial<Tool<never>> & Pick<Tool<never>, "call">): Tool<never> {
  return {
    name,
    description: `Test tool ${name}.`,
    inputSchema: open,
    price: 100,
    capability: undefined,
    ...more,
  };
}

const cycle: Record<string, unknown> = {};
cycle["self"] = cycle;

const tools: readonly Tool<never>[] = [
  of("echo", {
    inputSchema: {
      type: "object",
      properties: { text: { type: "string" } },
      required: ["text"],
      additionalProperties: false,
    },
    call: (input) => ({ ok: true, value: input }),
  }),
  of("foreign", {
    // Another server may list such a schema. Only the type of its root is checked.
    inputSchema: {
      type: "object",
      properties: { odd: null, list: { enum: {}, description: {}, type: {} } },
      required: {},
    },
    hasOwnValidation: true,
    call: (input) => ({ ok: true, value: { received: input } }),
  }),
  of("raw", {
    call: () => ({ ok: true, json: '{"n":12345678901234567890, "n":1.0,"s":"\\u0041"}' }),
  }),
  of("reserved", { capability: "platform:admin", call: () => ({ ok: true, value: {} }) }),
  of("throws", {
    call: () => {
      throw new Error("secret of the upstream");
    },
  }),
  of("cycles", { call: () => ({ ok: true, value: cycle }) }),
  of("fails", {
    call: () => toolFailure("GATEWAY_TOOL_EXECUTION_ERROR", "the node did not answer"),
  }),
  of("lost", { call: () => toolFailure("GATEWAY_NOT_FOUND", "no such block", { hash: "0x1" }) }),
  of("invalid", { call: () => toolFailure("GATEWAY_INVALID_PARAMS", "odd hex") }),
  of("away", { call: () => toolFailure("GATEWAY_SERVICE_UNAVAILABLE", "not configured") }),
  of("large", { call: () => ({ ok: true, value: "é".repeat(5 * 1024 * 1024) }) }),
  of("hangs", {
    call: (_, { signal }) => {
      seen.hanging++;
      signal.addEventListener("abort", () => void seen.aborted++);
      return new Promise<ToolResult>(() => {});
    },
  }),
  of("write", {
    write: true,
    capability: "ledger:write",
    price: 1000,
    inputSchema: {
      type: "object",
      properties: { to: { type: "string" } },
      required: ["to"],
      additionalProperties: false,
    },
    summarise: (input) => Promise.resolve({ ok: true, summary: { input } }),
    call: (input) => {
      seen.writes.push(input);
      return { ok: true, value: { hash: "0x01" } };
    },
  }),
];

export default defineTools({
  name: "tools-plugin",
  description: "Tools for tests.",
  start: () => ({ tools }),
});
