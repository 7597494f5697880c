/**
 * The official SDK as a server with fifteen tools, sessions in memory and JSON answers. `session`: one transport per
 * session, which is its fastest mode. `request`: a server per request, which is its stateless mode. Prints its port.
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
