export type Revision = "2025-11-25" | "2026-07-28";

export const acceptMcp = "accept: application/json, text/event-stream";

export const statelessHeaders = [
  acceptMcp,
  "mcp-protocol-version: 2026-07-28",
  "mcp-method: tools/call",
  "mcp-name: bench_0",
];

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

/** Opens a session of the revision 2025-11-25. Returns the headers of its calls. */
export async function sessionHeaders(port: number, headers: readonly string[]): Promise<string[]> {
  const sent = Object.fromEntries([...headers, acceptMcp].map((line) => line.split(": ")));
  const answer = await fetch(`http://127.0.0.1:${port}/mcp`, {
    method: "POST",
    headers: { ...sent, "content-type": "application/json" },
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: 0,
      method: "initialize",
      params: {
        protocolVersion: "2025-11-25",
        capabilities: {},
        clientInfo: { name: "bench", version: "1" },
      },
    }),
  });
  await answer.text();
  const session = `mcp-session-id: ${answer.headers.get("mcp-session-id") ?? ""}`;
  return [acceptMcp, session, "mcp-protocol-version: 2025-11-25"];
}
