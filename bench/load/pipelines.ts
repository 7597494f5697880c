/** The pipelines of Sluice in the benchmarks: keys, limits, metering with fsync and an access log in a file. */
import { apis, type Api } from "./chat-client.ts";
import { join } from "node:path";

const here = import.meta.dirname;

export interface Variant {
  /** Number of gateway threads. Default: 1. */
  readonly threads?: number;
  /** Number of cores that the gateway may use. */
  readonly cores?: number;
  /** `charges`: without charges. `all`: also without keys (unless the surface needs one), limits and access log. */
  readonly without?: "charges" | "all";
  readonly metering?: object;
  /** Stores that several gateways share. */
  readonly store?: { readonly postgres?: string; readonly redis?: string };
}

export interface NodeVariant extends Variant {
  /** Options of the node. */
  readonly upstream?: object;
}

interface PipelineOptions extends Variant {
  /** Folder for the files of the gateway. */
  readonly folder: string;
  /** The capability that a key needs. */
  readonly require: string;
  /** Whether the surface needs a key, whatever is left out. Default: false. */
  readonly needsKey?: boolean;
  /** The route, without its steps. */
  readonly route: object;
  readonly plugins?: object;
  /** More sections of the file. */
  readonly sections: object;
}

/** Returns pipeline.yaml with one route. */
export function pipeline(options: PipelineOptions): string {
  const { folder, threads, without, metering = {}, store, require, route, plugins } = options;
  const fewest = options.needsKey === true ? ["authenticate"] : [];
  const log = { "access-log": { file: join(folder, "access.log") } };
  const key = [log, "authenticate", "rate-limit", { authorize: { require } }];
  const charge = without === undefined ? "meter" : "free";
  return JSON.stringify({
    version: 1,
    server: { host: "127.0.0.1", port: 0, ...(threads !== undefined && { threads }) },
    admin: { host: "127.0.0.1", port: 0 },
    secret: "${GATEWAY_SECRET:-}",
    store: { data: join(folder, "data"), replica: "${REPLICA_NAME:-}", ...store },
    metering,
    plugins: {
      ...plugins,
      ...(without !== undefined && { free: join(here, "free-of-charge.ts") }),
    },
    plans: { enterprise: { rps: 1_000_000, includedCu: 9_000_000_000 } },
    ...options.sections,
    unmatched: ["request-id"],
    routes: [{ ...route, run: ["request-id", ...(without === "all" ? fewest : key), charge] }],
  });
}

/** Returns pipeline.yaml for calls of a node. */
export function nodePipeline(
  { upstream, ...variant }: NodeVariant,
  folder: string,
  node: string,
): string {
  return pipeline({
    ...variant,
    folder,
    require: "ledger:read",
    sections: {
      upstreams: { ledger: { urls: node, methods: { system_health: {} }, ...upstream } },
    },
    route: {
      path: "/v1/ledger/rpc",
      methods: ["POST"],
      to: { "ledger-rpc": { upstream: "ledger" } },
    },
  });
}

/** Returns pipeline.yaml for MCP. */
export function mcpPipeline(variant: Variant, folder: string): string {
  return pipeline({
    ...variant,
    folder,
    require: "key",
    needsKey: true,
    plugins: { "mcp-tools": join(here, "mcp-tools.ts") },
    sections: { tools: ["mcp-tools"] },
    route: {
      path: "/mcp",
      methods: ["POST", "DELETE"],
      // The load generator writes this into `Host`.
      to: { mcp: { hosts: ["bench", "127.0.0.1"] } },
    },
  });
}

/** Returns pipeline.yaml for an API for models. `model`: URL of the model server. `network`: options of its network. */
export function chatPipeline(
  variant: Variant,
  folder: string,
  model: string,
  api: Api = "chat",
  network: object = {},
): string {
  const bench = { kind: "openai", url: model, status: { url: `${model}/status` }, ...network };
  return pipeline({
    ...variant,
    folder,
    require: "inference",
    sections: { networks: { bench }, rate: "0.05" },
    route: { path: apis[api].path, methods: ["POST"], to: api },
  });
}
