/** Adds the tools of other servers of the Model Context Protocol to the catalogue, each with its own price. */
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { defineTools, type Host } from "sluice-gateway/plugin";
import { toolFailure, type Content, type Tool, type ToolResult } from "sluice-gateway/services";

type Options = { readonly servers: Readonly<Record<string, Server>> };

interface Server {
  readonly url: string;
  /** The allowed tools, with their prices in milli-CU. */
  readonly tools: Readonly<Record<string, number>>;
  readonly headers?: Readonly<Record<string, string>>;
}

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
    const all = Object.entries(servers).map(([prefix, server]) => new Remote(prefix, server, host));
    const found = await Promise.all(all.map((remote) => remote.tools()));
    return {
      tools: found.flat(),
      async stop() {
        await Promise.all(all.map((each) => each.close()));
      },
    };
  },
});

/** One server. If it cannot be reached, only its own tools are missing. */
class Remote {
  readonly #prefix: string;
  readonly #server: Server;
  readonly #host: Host;
  #client: Promise<Client> | undefined;

  constructor(prefix: string, server: Server, host: Host) {
    this.#prefix = prefix;
    this.#server = server;
    this.#host = host;
  }

  /** The allowed tools that the server has. If the server does not answer, there are none until the next reload. */
  async tools(): Promise<Tool<never>[]> {
    const listed = await this.#ask((client) => client.listTools(undefined, { timeout: 5_000 }));
    return (listed?.tools ?? []).flatMap(({ name, description = "", inputSchema, annotations }) => {
      const price = new Map(Object.entries(this.#server.tools)).get(name);
      if (price === undefined) return [];
      const tool: Tool<Record<string, unknown>> = {
        name: `${this.#prefix}_${name}`.replaceAll(/\W/g, "_"),
        description,
        inputSchema: { ...inputSchema },
        price,
        capability: undefined,
        annotations: { readOnlyHint: annotations?.readOnlyHint === true, openWorldHint: true },
        call: (input, { signal }) => this.#call(name, input, signal),
      };
      return [tool as Tool<never>];
    });
  }

  async #call(
    name: string,
    input: Record<string, unknown>,
    signal: AbortSignal,
  ): Promise<ToolResult> {
    const result = await this.#ask((client) =>
      client.callTool({ name, arguments: input }, { signal }),
    );
    if (result === undefined || result.isError === true) {
      return toolFailure("GATEWAY_TOOL_EXECUTION_ERROR", "the tool did not answer");
    }
    const content = result.content as readonly Content[];
    return { ok: true, value: result.structuredContent ?? { content }, content };
  }

  /** Returns undefined if the server does not answer. The next call connects again. */
  async #ask<T>(question: (client: Client) => Promise<T>): Promise<T | undefined> {
    try {
      this.#client ??= this.#connect();
      return await question(await this.#client);
    } catch (error) {
      this.#client = undefined;
      this.#host.log.warn({ err: error, server: this.#prefix }, "an MCP server does not answer");
      return undefined;
    }
  }

  async #connect(): Promise<Client> {
    const client = new Client({ name: "sluice", version: this.#host.version });
    const { url, headers = {} } = this.#server;
    const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
    await client.connect(transport, { timeout: 5_000 });
    return client;
  }

  async close(): Promise<void> {
    await this.#client?.then((client) => client.close()).catch(() => {});
  }
}
