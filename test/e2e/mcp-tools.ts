/** Tools for the tests of `/mcp`, with one tool for each way in which a call can end. */
import { toolFailure, type ToolContext } from "sluice-gateway/services";
import { defineTools } from "../../src/plugin.ts";

/** What the tools report to the test, which runs in the same process. */
export const seen = { writes: [] as unknown[] };

const plain = {
  inputSchema: { type: "object", properties: {} },
  price: 100,
  capability: undefined,
};

export default defineTools({
  name: "mcp-tools",
  description: "Tools for tests.",
  start: () => ({
    tools: [
      {
        name: "echo",
        description: "Answers with its text.",
        inputSchema: {
          type: "object",
          properties: { text: { type: "string" } },
          required: ["text"],
          additionalProperties: false,
        },
        price: 100,
        capability: undefined,
        annotations: { title: "Echo" },
        call: (input: { readonly text: string }) => ({ ok: true, value: { text: input.text } }),
      },
      {
        name: "infer",
        description: "Pretends to have asked a model.",
        annotations: { readOnlyHint: false },
        ...plain,
        price: 0,
        call: () => ({
          ok: true,
          json: '{"answer":1.0}',
          usage: { model: 'Acme/"M"-1', inputTokens: 3, outputTokens: 4 },
        }),
      },
      {
        name: "linked",
        description: "Speaks of a document.",
        ...plain,
        price: 0,
        call: () => ({
          ok: true,
          value: [],
          links: [
            { uri: "doc://guide#part", name: "guide", title: "Guide", mimeType: "text/markdown" },
          ],
        }),
      },
      {
        name: "measure",
        description: "Answers with a measurement that has a schema.",
        inputSchema: { type: "object", properties: { wrong: { type: "boolean" } } },
        outputSchema: {
          type: "object",
          properties: { celsius: { type: "number" } },
          required: ["celsius"],
          additionalProperties: false,
        },
        price: 0,
        capability: undefined,
        call: ({ wrong }: { readonly wrong?: boolean }) => ({
          ok: true,
          value: { celsius: wrong === true ? "warm" : 21.5 },
        }),
      },
      {
        name: "reserved",
        description: "Needs a capability that the key lacks.",
        inputSchema: { type: "object", properties: {} },
        price: 100,
        capability: "platform:admin" as const,
        call: () => ({ ok: true, value: {} }),
      },
      {
        name: "broken",
        description: "Throws.",
        ...plain,
        call: () => {
          throw new Error("secret of the upstream");
        },
      },
      {
        name: "failing",
        description: "Its upstream is away.",
        ...plain,
        call: () => toolFailure("GATEWAY_TOOL_EXECUTION_ERROR", "the node did not answer"),
      },
      {
        name: "large",
        description: "Answers 10 MiB.",
        ...plain,
        call: () => ({ ok: true, json: JSON.stringify('é"'.repeat(5 << 20).slice(0, 10 << 20)) }),
      },
      {
        name: "counts",
        description: "Reports progress.",
        inputSchema: { type: "object", properties: { until: { type: "integer" } } },
        price: 100,
        capability: undefined,
        call: async (
          input: { readonly until?: number },
          context: { progress(done: number, total?: number, message?: string): void },
        ) => {
          const until = input.until ?? 3;
          for (let at = 1; at <= until; at++) {
            context.progress(at, until, `step ${at}`);
            // A value that repeats or decreases is omitted.
            context.progress(at, until);
            context.progress(at - 1);
            await Promise.resolve();
          }
          return { ok: true as const, value: { counted: until } };
        },
      },
      {
        name: "logs",
        description: "Tells what it does.",
        ...plain,
        call: (_input: object, context: ToolContext) => {
          context.log("debug", "looking");
          context.log("warning", { late: true });
          context.log("error", undefined);
          return { ok: true as const, value: {} };
        },
      },
      {
        name: "write",
        description: "Changes something.",
        inputSchema: {
          type: "object",
          properties: { to: { type: "string" }, amount: { type: "integer" } },
          required: ["to"],
          additionalProperties: false,
        },
        price: 1000,
        capability: "ledger:write" as const,
        write: true,
        summarise: (input: { readonly to: string }) =>
          Promise.resolve({
            ok: true as const,
            summary: { pallet: "Balances", method: "transfer", args: { to: input.to } },
          }),
        call: (input: object) => {
          seen.writes.push(input);
          return { ok: true, value: { hash: "0x01" } };
        },
      },
    ],
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
