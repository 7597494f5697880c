/** The pipelines of Sluice in the benchmarks: keys, limits, metering with fsync and an access log in a file. */
import { apis, type Api } from "./chat-client.ts";
import { join } from "node:path";

const here = import.meta.dirname;

export interface Variant {
  readonly threads?: number;
  readonly cores?: number;
  /** `charges`: without charges. `all`: also without keys (unless the surface needs one), limits and access log. */
  readonly without?: "charges" | "all";
  readonly metering?: object;
  readonly store?: { readonly postgres?: string; readonly redis?: string };
}

export interface NodeVariant extends Variant {
  readonly upstream?: object;
}

interface PipelineOptions extends Variant {
  readonly folder: string;
  readonly require: string;
  /** Whether the surface needs a key, whatever is left out. Default: false. */
  readonly needsKey?: boolean;
  readonly route: object;
  readonly plugins?: object;
  readonly sections: object;
}

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
