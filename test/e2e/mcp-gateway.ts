/** A gateway with `/mcp` and tools of the test, and a client that sends raw HTTP to it. */
import { request, type IncomingHttpHeaders } from "node:http";
import { join } from "node:path";
import {
  startTestGateway,
  type TestGateway,
  type TestGatewayOptions,
} from "../../plugins/contracts/testing.ts";

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

/** A value of JSON.parse. Tests read deeply nested members, and a missing member fails them. */
export type Parsed = ReturnType<typeof JSON.parse>;

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly json: Parsed;
}

export interface McpRequest {
  readonly method?: string;
  readonly path?: string;
  /** The text of the key; null to send none. */
  readonly key?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
  /** A string is sent unchanged. */
  readonly body?: unknown;
}

export function ask(
  gateway: Pick<TestGateway, "url" | "key">,
  wanted: McpRequest,
): Promise<Answer> {
  const { method = "POST", path = "/mcp", key = gateway.key, headers = {}, body } = wanted;
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const req = request(gateway.url + path, {
    method,
    agent: false,
    headers: {
      ...(key !== null && { authorization: `Bearer ${key}` }),
      ...(body !== undefined && { "content-type": "application/json" }),
      ...headers,
    },
  });
  req.on("error", reject).on("response", (res) => {
    let text = "";
    res.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
    res.on("error", reject);
    res.on("end", () => {
      resolve({
        status: res.statusCode ?? 0,
        headers: res.headers,
        text,
        get json() {
          return JSON.parse(text);
        },
      });
    });
  });
  req.end(typeof body === "string" ? body : body === undefined ? undefined : JSON.stringify(body));
  return promise;
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
