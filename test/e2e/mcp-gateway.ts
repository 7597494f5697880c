/** A gateway with `/mcp` and tools of the test, and a client that sends raw HTTP to it. */
import { join } from "node:path";
import {
  startTestGateway,
  type TestGateway,
  type TestGatewayOptions,
} from "../../plugins/contracts/testing.ts";
import { ask as send, type Answer, type Parsed, type Sent } from "./ask.ts";

const here = import.meta.dirname;

export function mcpPipeline(mcp: string, tools: NonNullable<McpGatewayOptions["tools"]>): string {
  return `
version: 1
server: { host: 127.0.0.1, port: "\${PORT}", trustProxy: [127.0.0.2], drainDelaySeconds: 0 }
admin: { host: 127.0.0.1, port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}", postgres: "\${DATABASE_URL:-}", replica: "\${REPLICA_NAME:-}" }
secret: "\${GATEWAY_SECRET:-}"
plans: { enterprise: { rps: 100000, includedCu: 499000000 } }
plugins: { ${tools.name}: ${JSON.stringify(join(here, tools.file))} }
tools: [${tools.name}]
lists:
  edge: [request-id, authenticate, rate-limit]
  agents: [{ use: edge }, { authorize: { require: key } }, meter]
unmatched: [request-id]
routes:
  - { path: /mcp, methods: [POST, DELETE], run: [{ use: agents }], to: { mcp: ${mcp} } }
  - { path: /mcp/server-card, methods: [GET], run: [{ use: edge }], to: mcp-card }
`;
}

export const mcpTools = { name: "mcp-tools", file: "mcp-tools.ts" };

export interface McpGatewayOptions extends Partial<TestGatewayOptions> {
  /** Options of the surface, in YAML's flow style. */
  readonly mcp?: string;
  /** A module of kind `tools` in place of `mcp-tools.ts`: the name of its plugin and its file in this folder. */
  readonly tools?: { readonly name: string; readonly file: string };
}

export function startMcpGateway(options: McpGatewayOptions = {}): Promise<TestGateway> {
  const { mcp = "{}", tools = mcpTools, ...rest } = options;
  return startTestGateway({ pipeline: mcpPipeline(mcp, tools), ...rest });
}

export type { Answer, Parsed };

export interface McpRequest extends Sent {
  readonly path?: string;
}

/** Sends a POST to `/mcp` by default. `key`: that of the gateway by default; null to send none. */
export function ask(
  gateway: Pick<TestGateway, "url" | "key">,
  { path = "/mcp", ...sent }: McpRequest,
): Promise<Answer> {
  return send(gateway.url + path, { method: "POST", key: gateway.key, ...sent });
}

export function stateless(
  method: string,
  params: Readonly<Record<string, unknown>> = {},
  more: { id?: unknown; capabilities?: object; headers?: Record<string, string> } = {},
): { headers: Record<string, string>; body: object } {
  const { id = 1, capabilities = {}, headers = {} } = more;
  const name = params["name"] ?? params["uri"];
  return {
    headers: {
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": method,
      ...(typeof name === "string" && { "mcp-name": name }),
      ...headers,
    },
    body: {
      jsonrpc: "2.0",
      id,
      method,
      params: {
        ...params,
        _meta: {
          "io.modelcontextprotocol/protocolVersion": "2026-07-28",
          "io.modelcontextprotocol/clientCapabilities": capabilities,
          "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
          ...(params["_meta"] as object | undefined),
        },
      },
    },
  };
}

export function eventsOf(text: string): Parsed[] {
  return text
    .split("\n")
    .filter((line) => line.startsWith("data: "))
    .map((line) => JSON.parse(line.slice(6)));
}
