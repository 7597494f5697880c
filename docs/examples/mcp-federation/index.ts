/** Adds the tools of other servers of the Model Context Protocol to the catalogue, each with its own price. */
import { defineTools, type Host } from "sluice-gateway/plugin";
import { toolFailure, type Content, type Tool, type ToolResult } from "sluice-gateway/services";
import { connection } from "./connection.ts";

interface Options {
  readonly servers: Readonly<Record<string, Server>>;
  readonly refreshSeconds: number;
}

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
const seconds = { type: "integer", minimum: 1, maximum: 86_400, default: 30 };
/** Maximum length of the text of a failed tool. */
const maxTextChars = 2_000;
/** Many servers name an old draft for schemas that are valid in the current one. */
const withoutDraft = (schema: Input): Input =>
  Object.fromEntries(Object.entries(schema).filter(([name]) => name !== "$schema"));

export default defineTools<Options>({
  name: "mcp-federation",
  contract: "^1.2",
  description: "Adds the tools of other MCP servers.",
  options: {
    type: "object",
    properties: {
      servers: { type: "object", additionalProperties: server, description: "Servers by prefix." },
      refreshSeconds: { ...seconds, description: "Pause before the tools are listed again." },
    },
    required: ["servers"],
    additionalProperties: false,
  },
  permissions: { hosts: ["*"], body: "none" },
  async start({ servers, refreshSeconds }, host) {
    const all = Object.entries(servers).map(([prefix, server]) => remote(prefix, server, host));
    let tools: readonly Tool<never>[] = [];
    const refresh = async () => {
      const changes = await Promise.all(all.map((each) => each.refresh()));
      if (changes.includes(true)) tools = all.flatMap((each) => each.tools());
    };
    await refresh();
    host.every(refreshSeconds * 1_000, refresh);
    return {
      get tools() {
        return tools;
      },
      onInvalid: (problem) => host.log.warn({}, `skipped: ${problem}`),
      stop: async () => void (await Promise.all(all.map((each) => each.close()))),
    };
  },
});

/** One server. If it cannot be reached, only its own tools are missing. */
function remote(prefix: string, { url, tools: prices, headers = {} }: Server, host: Host) {
  const { ask, close } = connection(prefix, url, headers, host);
  let listing: string | undefined;
  let tools: readonly Tool<never>[] = [];

  async function call(name: string, input: Input, signal: AbortSignal): Promise<ToolResult> {
    const result = await ask((client) => client.callTool({ name, arguments: input }, { signal }));
    const failed = (message: string) => toolFailure("GATEWAY_TOOL_EXECUTION_ERROR", message);
    // The reason is in the log. The caller never gets the text of a transport or protocol error.
    if (result === undefined) return failed("the tool did not answer");
    const content = result.content as readonly Content[];
    if (result.isError !== true) {
      return { ok: true, value: result.structuredContent ?? { content }, content };
    }
    // The tool has written this text for its caller, as it does with the content of a success.
    const written = content.flatMap(({ text }) => (typeof text === "string" ? [text] : []));
    return failed(written.join("\n").slice(0, maxTextChars) || "the tool failed");
  }

  return {
    tools: () => tools,
    /** Returns true if the tools have changed. While the server is away, they remain as they were. */
    async refresh(): Promise<boolean> {
      const options = { timeout: 5_000, cacheMode: "refresh" } as const;
      const found = await ask((client) => client.listTools(undefined, options));
      const allowed = found?.tools.filter(({ name }) => Object.hasOwn(prices, name));
      if (allowed === undefined || JSON.stringify(allowed) === listing) return false;
      listing = JSON.stringify(allowed);
      tools = allowed.map(({ name, description = "", inputSchema, outputSchema, annotations }) => {
        const { title, readOnlyHint = false, destructiveHint = !readOnlyHint } = annotations ?? {};
        const tool: Tool<Input> = {
          name: `${prefix}_${name}`.replaceAll(/\W/g, "_"),
          description,
          inputSchema: withoutDraft(inputSchema),
          ...(outputSchema && { outputSchema: withoutDraft(outputSchema) }),
          price: prices[name] ?? 0,
          capability: undefined,
          annotations: {
            ...(title !== undefined && { title }),
            readOnlyHint,
            destructiveHint,
            openWorldHint: true,
          },
          call: (input, { signal }) => call(name, input, signal),
        };
        return tool as Tool<never>;
      });
      return true;
    },
    close,
  };
}
