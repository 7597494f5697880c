/** The document at `/.well-known/mcp`. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Tool } from "sluice-gateway/services";
import { testSurface } from "../../../plugins/contracts/testing.ts";
import discovery from "../../../plugins/tools/discovery/index.ts";
import { version } from "../../../src/base/version.ts";
import { bench, tool } from "./tool-catalogue/fixture.ts";

type Options = Partial<Parameters<typeof discovery.start>[0]>;

async function documentOf(
  tools: readonly Tool<never>[],
  options: Options = {},
): Promise<Record<string, unknown>> {
  const { catalogue } = await bench(...tools);
  const services = { "tool-catalogue": catalogue };
  await using surface = await testSurface(discovery, { options, services });
  return (await surface.send()).json() as Record<string, unknown>;
}

describe("the discovery document", () => {
  it("has exactly the specified members, and tools without their schemas", async () => {
    const tools = [
      tool({ capability: "docs:read", annotations: { title: "Echo" } }),
      tool({ name: "gateway_batch", price: { estimateMilliCu: 0, of: () => 0 } }),
    ];
    assert.deepEqual(await documentOf(tools), {
      name: "sluice",
      version,
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
    const document = await documentOf([], options);
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
