import { INVALID_PARAMS, ProtocolError, type CallToolResult } from "@modelcontextprotocol/client";
import { defineTools, type GatewayCode, type Log, type ToolsHooks } from "sluice-gateway/plugin";
import { connection } from "./connection.ts";

interface Options {
  readonly prefix: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The allowed tools, with their prices in milli-CU. */
  readonly tools: Readonly<Record<string, number>>;
  readonly refreshSeconds: number;
}

const whole = { type: "integer", minimum: 0 };
const textMap = { type: "object", additionalProperties: { type: "string" }, default: {} };
const failed = (message: string, code: GatewayCode = "GATEWAY_TOOL_EXECUTION_ERROR") =>
  ({ ok: false, code, message }) as const;

export default defineTools<Options>({
  name: "mcp-federation",
  description: "Adds the tools of another MCP server.",
  options: {
    type: "object",
    properties: {
      prefix: { type: "string", description: "Begins the names of the tools." },
      url: { type: "string", description: "Address of the server (streamable HTTP)." },
      headers: { ...textMap, description: "Header fields of each request." },
      tools: { type: "object", additionalProperties: whole, description: "Prices in milli-CU." },
      refreshSeconds: { ...whole, minimum: 1, default: 30, description: "Time between listings." },
    },
    required: ["prefix", "url", "tools"],
    additionalProperties: false,
  },
  permissions: { hosts: ["*"], body: "none" },
  start({ prefix, url, headers, tools: prices, refreshSeconds }, host) {
    const log = host.log.child({ server: prefix });
    const { listTools, callTool, close } = connection(url, { headers }, host);
    let tools: ToolsHooks["tools"] = [];
    let listing: string | undefined;
    let isUnavailable = false;

    /** While the server is unavailable, the last list stays in use. */
    async function refresh(): Promise<void> {
      try {
        const listed = new Map((await listTools()).tools.map((tool) => [tool.name, tool]));
        const allowed = Object.keys(prices).flatMap((name) => listed.get(name) ?? []);
        if (isUnavailable) log.info({}, "an MCP server is available again");
        isUnavailable = false;
        if (listing === JSON.stringify(allowed)) return;
        listing = JSON.stringify(allowed);
        const missing = [...new Set(Object.keys(prices)).difference(listed)];
        if (missing.length > 0) log.warn({ missing }, "tools of an MCP server are missing");
        tools = allowed.map((tool) => ({
          name: `${prefix}_${tool.name}`.replaceAll(/\W/g, "_"),
          description: tool.description ?? "",
          inputSchema: tool.inputSchema,
          outputSchema: tool.outputSchema,
          // Patterns of the server could block the gateway, so they only run at the server.
          hasOwnValidation: true,
          price: prices[tool.name] ?? 0,
          capability: undefined,
          annotations: { readOnlyHint: false, ...tool.annotations },
          call: (input, { signal }) => resultOf(callTool(tool.name, input, signal), log),
        }));
      } catch (error) {
        if (!isUnavailable) log.warn({ err: error }, "an MCP server is unavailable");
        isUnavailable = true;
      }
    }

    // The start does not wait for the server, which may never answer.
    void refresh();
    host.every(refreshSeconds * 1_000, refresh);
    return {
      get tools() {
        return tools;
      },
      stop: close,
    };
  },
});

/** The caller never gets the text of a transport or protocol error. */
async function resultOf(answer: Promise<CallToolResult>, log: Log) {
  try {
    const { content, structuredContent, isError } = await answer;
    if (isError !== true)
      return { ok: true as const, value: structuredContent ?? { content }, content };
    // The tool has written this text for its caller, as it does with the content of a success.
    const texts = content.flatMap((item) => (item.type === "text" ? [item.text] : []));
    return failed(texts.join("\n").slice(0, 2_000) || "the tool failed");
  } catch (error) {
    log.info({ err: error }, "a call of an MCP server failed");
    const isRefusal = error instanceof ProtocolError && error.code === INVALID_PARAMS;
    if (isRefusal) return failed("the tool refused the arguments", "GATEWAY_INVALID_PARAMS");
    return failed("the tool did not answer");
  }
}
