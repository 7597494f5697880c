/** Surface `discovery`: the public document about this deployment for agents (gateway.md, GET /.well-known/mcp). */
import { defineSurface, type Reply } from "sluice-gateway/plugin";
import { etagOf, matchesEtag } from "sluice-gateway/internal/http";
import type { CatalogueEntry } from "sluice-gateway/services";
import { announcedRevisions } from "../mcp-revisions.ts";
import { perList } from "../per-list.ts";
import { operation } from "./operation.ts";

interface Options {
  readonly name: string;
  readonly description?: string;
  readonly mcp: string;
  readonly rpc: string;
}

/** Tools change rarely. Agents may miss a change for five minutes. */
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
    const replies = perList(host.use("tool-catalogue"), (list) =>
      repliesWith(JSON.stringify(documentOf(options, host.version, list))),
    );
    return {
      answer({ request }) {
        const { etag, whole, unchanged } = replies();
        return matchesEtag(request.headers["if-none-match"], etag) ? unchanged : whole;
      },
    };
  },
});

function repliesWith(body: string): { etag: string; whole: Reply; unchanged: Reply } {
  const etag = etagOf(body);
  const shared = ["etag", etag, "cache-control", cacheControl, "access-control-allow-origin", "*"];
  const headers = ["content-type", "application/json", ...shared];
  return {
    etag,
    whole: { status: 200, headers, body },
    unchanged: { status: 304, headers: shared },
  };
}

function documentOf(options: Options, version: string, list: readonly CatalogueEntry[]): object {
  const { name, mcp, rpc } = options;
  const {
    description = "A gateway to a Substrate node and a confidential inference network, metered in credit units.",
  } = options;
  const batches = list.some((tool) => tool.name === "gateway_batch");
  return {
    name,
    version,
    description,
    mcpEndpoint: mcp,
    rpcEndpoint: rpc,
    auth: { type: "bearer", header: "Authorization" },
    tools: list.map((tool) => ({
      name: tool.name,
      description: tool.description,
      estimatedCUMilli: tool.estimatedCUMilli,
      estimatedCUVaries: tool.estimatedCUVaries,
    })),
    capabilities: ["tools", ...(batches ? ["batch"] : []), "agent-tracking"],
    protocolVersions: announcedRevisions,
  };
}
