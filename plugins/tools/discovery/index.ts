/** Surface `discovery`: the public document about this deployment for agents (gateway.md, GET /.well-known/mcp). */
import { defineSurface, type Host, type Reply } from "sluice-gateway/plugin";
import { etagOf, matchesEtag } from "sluice-gateway/http";
import { announcedRevisions } from "../mcp-revisions.ts";
import { operation } from "./operation.ts";

interface Options {
  readonly name: string;
  readonly description?: string;
  readonly mcp: string;
  readonly rpc: string;
}

/** Tools change with a deployment only. Agents may miss a change for five minutes. */
const cacheControl = "public, max-age=300";

const path = { type: "string", pattern: "^/" };

export default defineSurface<Options>({
  name: "discovery",
  description: "Serves the discovery document: endpoints, tools and protocol versions.",
  options: {
    type: "object",
    additionalProperties: false,
    properties: {
      name: {
        description: "Name of the service.",
        type: "string",
        minLength: 1,
        default: "sluice",
      },
      description: { description: "One sentence about the service.", type: "string", minLength: 1 },
      mcp: { description: "Path of the agent protocol.", ...path, default: "/mcp" },
      rpc: { description: "Path of the tool JSON-RPC endpoint.", ...path, default: "/rpc" },
    },
  },
  uses: ["tool-catalogue"],
  operation: () => operation,
  start(options, host) {
    const body = JSON.stringify(documentOf(options, host));
    const etag = etagOf(body);
    const shared = [
      "etag",
      etag,
      "cache-control",
      cacheControl,
      "access-control-allow-origin",
      "*",
    ];
    const whole: Reply = {
      status: 200,
      headers: ["content-type", "application/json", ...shared],
      body,
    };
    const unchanged: Reply = { status: 304, headers: shared };
    return {
      answer: (x) => (matchesEtag(x.request.headers["if-none-match"], etag) ? unchanged : whole),
    };
  },
});

function documentOf(options: Options, host: Host): object {
  const { version } = host;
  const tools = host.use("tool-catalogue");
  const { name, mcp, rpc } = options;
  const {
    description = "A gateway to a Substrate node and a confidential inference network, metered in credit units.",
  } = options;
  const batches = tools.list.some((tool) => tool.name === "gateway_batch");
  return {
    name,
    version,
    description,
    mcpEndpoint: mcp,
    rpcEndpoint: rpc,
    auth: { type: "bearer", header: "Authorization" },
    tools: tools.list.map((tool) => ({
      name: tool.name,
      description: tool.description,
      estimatedCUMilli: tool.estimatedCUMilli,
      estimatedCUVaries: tool.estimatedCUVaries,
    })),
    capabilities: ["tools", ...(batches ? ["batch"] : []), "agent-tracking"],
    protocolVersions: announcedRevisions,
  };
}
