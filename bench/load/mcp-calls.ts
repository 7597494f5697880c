/** The tool calls of the MCP workload, and the headers that both revisions of the protocol need. */

export type Revision = "2025-11-25" | "2026-07-28";

export const acceptMcp = "accept: application/json, text/event-stream";

/** Headers of the stateless revision, 2026-07-28. */
export const statelessHeaders = [
  acceptMcp,
  "mcp-protocol-version: 2026-07-28",
  "mcp-method: tools/call",
  "mcp-name: bench_0",
];

/** Returns 1,000 bodies that call the tool `bench_0`. */
export function toolCalls(revision: Revision): string[] {
  const meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  return Array.from({ length: 1000 }, (_, id) =>
    JSON.stringify({
      jsonrpc: "2.0",
      id,
      method: "tools/call",
      params: {
        name: "bench_0",
        arguments: { text: `call ${id}` },
        ...(revision === "2026-07-28" && { _meta: meta }),
      },
    }),
  );
}
