/** Tools for the tests of `/mcp`, with one tool for each way in which a call can end. */
import { toolFailure, type Tool, type ToolContext } from "sluice-gateway/services";
import { defineTools } from "../../src/plugin.ts";

/** What the tools report to the test, which runs in the same process. */
export const seen = { writes: [] as unknown[] };

const noInput = { type: "object", properties: {} };

/** A tool that costs 100 milli-CU and needs no capability. */
function of(
  name: string,
  description: string,
  more: Partial<Tool<never>> & Pick<Tool<never>, "call">,
): Tool<never> {
  return { name, description, inputSchema: noInput, price: 100, capability: undefined, ...more };
}

const tools: readonly Tool<never>[] = [
  of("echo", "Answers with its text.", {
    inputSchema: {
      type: "object",
      properties: { text: { type: "string" } },
      required: ["text"],
      additionalProperties: false,
    },
    annotations: { title: "Echo" },
    call: ({ text }: { readonly text: string }) => ({ ok: true, value: { text } }),
  }),
  of("infer", "Pretends to have asked a model.", {
    annotations: { readOnlyHint: false },
    price: 0,
    call: () => ({
      ok: true,
      json: '{"answer":1.0}',
      usage: { model: 'Acme/"M"-1', inputTokens: 3, outputTokens: 4 },
    }),
  }),
  of("linked", "Speaks of a document.", {
    inputSchema: { type: "object", properties: { only: { type: "boolean" } } },
    price: 0,
    call: ({ only }: { readonly only?: boolean }) => ({
      ok: true,
      value: [],
      ...(only === true && { content: [] }),
      links: [
        { uri: "doc://guide#part", name: "guide", title: "Guide", mimeType: "text/markdown" },
      ],
    }),
  }),
  of("measure", "Answers with a measurement that has a schema.", {
    inputSchema: { type: "object", properties: { wrong: { type: "boolean" } } },
    outputSchema: {
      type: "object",
      properties: { celsius: { type: "number" } },
      required: ["celsius"],
      additionalProperties: false,
    },
    price: 0,
    call: ({ wrong }: { readonly wrong?: boolean }) => ({
      ok: true,
      json: JSON.stringify({ celsius: wrong === true ? "warm" : 21.5 }, undefined, 2),
    }),
  }),
  of("reserved", "Needs a capability that the key lacks.", {
    capability: "platform:admin",
    call: () => ({ ok: true, value: {} }),
  }),
  of("broken", "Throws.", {
    call: () => {
      throw new Error("secret of the upstream");
    },
  }),
  of("failing", "Its upstream is away.", {
    call: () => toolFailure("GATEWAY_TOOL_EXECUTION_ERROR", "the node did not answer"),
  }),
  of("large", "Answers 10 MiB.", {
    call: () => ({ ok: true, json: JSON.stringify('é"'.repeat(5 << 20).slice(0, 10 << 20)) }),
  }),
  of("counts", "Reports progress.", {
    inputSchema: { type: "object", properties: { until: { type: "integer" } } },
    async call({ until = 3 }: { readonly until?: number }, context: ToolContext) {
      for (let at = 1; at <= until; at++) {
        context.progress(at, until, `step ${at}`);
        // A value that repeats or decreases is omitted.
        context.progress(at, until);
        context.progress(at - 1);
        await Promise.resolve();
      }
      return { ok: true, value: { counted: until } };
    },
  }),
  of("logs", "Tells what it does.", {
    call(_input: object, context: ToolContext) {
      context.log("debug", "looking");
      context.log("warning", { late: true });
      context.log("error", undefined);
      return { ok: true, value: {} };
    },
  }),
  of("write", "Changes something.", {
    inputSchema: {
      type: "object",
      properties: { to: { type: "string" }, amount: { type: "integer" } },
      required: ["to"],
      additionalProperties: false,
    },
    price: 1000,
    capability: "ledger:write",
    write: true,
    summarise: ({ to }: { readonly to: string }) =>
      Promise.resolve({
        ok: true,
        summary: { pallet: "Balances", method: "transfer", args: { to } },
      }),
    call(input: object) {
      seen.writes.push(input);
      return { ok: true, value: { hash: "0x01" } };
    },
  }),
];

export default defineTools({
  name: "mcp-tools",
  description: "Tools for tests.",
  start: () => ({
    tools,
    resources: [
      {
        uri: "doc://guide",
        name: "guide",
        title: "Guide",
        description: "How to.",
        mimeType: "text/markdown",
        bytes: 7,
        capability: "docs:read" as const,
        read: () => "# Guide",
      },
      {
        uri: "doc://picture",
        name: "picture",
        mimeType: "image/png",
        capability: undefined,
        read: () => Promise.resolve(Uint8Array.of(1, 2, 3)),
      },
      {
        uri: "doc://broken",
        name: "broken",
        mimeType: "text/plain",
        capability: undefined,
        read: () => Promise.reject(new Error("secret of the disk")),
      },
    ],
  }),
});
