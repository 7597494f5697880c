/**
 * The official SDK as a server: fifteen tools, sessions in memory, JSON answers. `session`: one transport for a
 * session, its fastest way; `request`: a server for every request, its stateless way. Prints its port.
 */
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { CallToolRequestSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { inputSchema, toolNames } from "../mcp-tools.ts";

const perRequest = process.argv[2] === "request";
const sessions = new Map<string, StreamableHTTPServerTransport>();

async function connect(): Promise<StreamableHTTPServerTransport> {
  const server = new Server({ name: "bench", version: "1" }, { capabilities: { tools: {} } });
  const tools = toolNames.map((name) => ({ name, description: name, inputSchema }));
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools }));
  server.setRequestHandler(CallToolRequestSchema, ({ params }) => ({
    content: [{ type: "text", text: JSON.stringify({ text: params.arguments?.["text"] }) }],
  }));
  const transport: StreamableHTTPServerTransport = new StreamableHTTPServerTransport({
    enableJsonResponse: true,
    ...(perRequest
      ? { sessionIdGenerator: undefined as never }
      : {
          sessionIdGenerator: () => randomUUID(),
          onsessioninitialized: (id: string) => void sessions.set(id, transport),
        }),
  });
  await server.connect(transport);
  return transport;
}

const http = createServer((req, res) => {
  const chunks: Buffer[] = [];
  req.on("data", (chunk: Buffer) => chunks.push(chunk));
  req.on("end", () => {
    const body = JSON.parse(Buffer.concat(chunks).toString()) as unknown;
    const known = sessions.get(String(req.headers["mcp-session-id"]));
    void (async () => {
      const transport = known ?? (await connect());
      await transport.handleRequest(req, res, body);
    })();
  });
});
http.listen(0, "127.0.0.1", () => {
  const address = http.address();
  console.log(typeof address === "object" ? address?.port : address);
});
