import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Tool, Tools } from "sluice-gateway/services";
import discovery from "../../../plugins/tools/discovery/index.ts";
import type { Reply } from "../../../src/plugin.ts";
import { bench, tool } from "./tool-catalogue/fixture.ts";
import { fakeExchange, fakeHost } from "../fakes.ts";
import { withDefaults } from "../with-defaults.ts";

type Options = Partial<Parameters<typeof discovery.start>[0]>;

async function ask(
  tools: Tools,
  headers: Record<string, string> = {},
  options: Options = {},
): Promise<Reply> {
  const hooks = await discovery.start(
    withDefaults(discovery, options),
    fakeHost({}, { "tool-catalogue": tools }),
  );
  const reply = await hooks.answer(fakeExchange({ headers }));
  assert(reply !== undefined);
  return reply;
}

const catalogueOf = (...tools: Tool<never>[]): Tools => bench(...tools).catalogue;
const documentOf = ({ body }: Reply): Record<string, unknown> =>
  JSON.parse(String(body)) as Record<string, unknown>;

describe("the discovery document", () => {
  it("has exactly the specified members, and tools without their schemas", async () => {
    const tools = catalogueOf(
      tool({ capability: "docs:read", annotations: { title: "Echo" } }),
      tool({ name: "gateway_batch", price: { estimateMilliCu: 0, of: () => 0 } }),
    );
    assert.deepEqual(documentOf(await ask(tools)), {
      name: "sluice",
      version: "1.2.3",
      description:
        "A gateway to a Substrate node and a confidential inference network, metered in credit units.",
      mcpEndpoint: "/mcp",
      rpcEndpoint: "/rpc",
      auth: { type: "bearer", header: "Authorization" },
      tools: [
        {
          name: "echo",
          description: "Answers its input.",
          estimatedCUMilli: 100,
          estimatedCUVaries: false,
        },
        {
          name: "gateway_batch",
          description: "Answers its input.",
          estimatedCUMilli: 0,
          estimatedCUVaries: true,
        },
      ],
      capabilities: ["tools", "batch", "agent-tracking"],
      protocolVersions: ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"],
    });
  });

  it("lists no batch capability without gateway_batch, and takes its names from the options", async () => {
    const options = { name: "acme", description: "Ours.", mcp: "/agents", rpc: "/tools" };
    const document = documentOf(await ask(catalogueOf(), {}, options));
    assert.deepEqual(
      [
        document["capabilities"],
        document["tools"],
        document["name"],
        document["description"],
        document["mcpEndpoint"],
        document["rpcEndpoint"],
      ],
      [["tools", "agent-tracking"], [], "acme", "Ours.", "/agents", "/tools"],
    );
  });
});
