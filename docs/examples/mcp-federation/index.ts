/** Adds the tools of other servers of the Model Context Protocol to the catalogue, each with its own price. */
import { defineTools, type Host } from "sluice-gateway/plugin";
import { toolFailure, type Content, type Tool, type ToolResult } from "sluice-gateway/services";
import { connection } from "./connection.ts";

type Options = { readonly servers: Readonly<Record<string, Server>> };

/** `tools`: the allowed tools, with their prices in milli-CU. */
interface Server {
  readonly url: string;
  readonly tools: Readonly<Record<string, number>>;
  readonly headers?: Readonly<Record<string, string>>;
}

type Input = Record<string, unknown>;

const prices = { type: "object", additionalProperties: { type: "integer", minimum: 0 } };
const texts = { type: "object", additionalProperties: { type: "string" } };
const server = {
  type: "object",
  properties: { url: { type: "string" }, tools: prices, headers: texts },
  required: ["url", "tools"],
  additionalProperties: false,
};

export default defineTools<Options>({
  name: "mcp-federation",
  contract: "^1.2",
  description: "Adds the tools of other MCP servers.",
  options: {
    type: "object",
    properties: {
      servers: { type: "object", additionalProperties: server, description: "Servers by prefix." },
    },
    required: ["servers"],
    additionalProperties: false,
  },
  permissions: { hosts: ["*"], body: "none" },
  async start({ servers }, host) {
    const all = Object.entries(servers).map(([prefix, server]) => remote(prefix, server, host));
    const found = await Promise.all(all.map((each) => each.tools()));
    const stop = async () => void (await Promise.all(all.map((each) => each.close())));
    const onInvalid = (problem: string): void => host.log.warn({}, `skipped: ${problem}`);
    return { tools: found.flat(), onInvalid, stop };
  },
});

/** One server. If it cannot be reached, only its own tools are missing. */
function remote(prefix: string, { url, tools, headers = {} }: Server, host: Host) {
  const prices = new Map(Object.entries(tools));
  const { ask, close } = connection(prefix, url, headers, host);

  async function call(name: string, input: Input, signal: AbortSignal): Promise<ToolResult> {
    const result = await ask((client) => client.callTool({ name, arguments: input }, { signal }));
    const failed = (message: string) => toolFailure("GATEWAY_TOOL_EXECUTION_ERROR", message);
    if (result === undefined) return failed("the tool did not answer");
    const content = result.content as readonly Content[];
    // The tool has written this text for its caller.
    const texts = content.flatMap(({ text }) => (typeof text === "string" ? [text] : []));
    if (result.isError === true)
      return failed(texts.join("\n").slice(0, 2_000) || "the tool failed");
    return { ok: true, value: result.structuredContent ?? { content }, content };
  }

  return {
    /** The allowed tools that the server has. If it does not answer, there are none until a restart of the plugin. */
    async tools(): Promise<Tool<never>[]> {
      const listed = await ask((client) => client.listTools(undefined, { timeout: 5_000 }));
      return (listed?.tools ?? []).flatMap(
        ({ name, description = "", inputSchema, outputSchema, annotations }) => {
          const price = prices.get(name);
          if (price === undefined) return [];
          const tool: Tool<Input> = {
            name: `${prefix}_${name}`.replaceAll(/\W/g, "_"),
            description,
            inputSchema: { ...inputSchema },
            ...(outputSchema && { outputSchema: { ...outputSchema } }),
            price,
            capability: undefined,
            annotations: { readOnlyHint: annotations?.readOnlyHint === true, openWorldHint: true },
            call: (input, { signal }) => call(name, input, signal),
          };
          return [tool as Tool<never>];
        },
      );
    },
    close,
  };
}
