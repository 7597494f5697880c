/** The pipelines of Sluice in the benchmarks: keys, limits, metering with fsync and an access log in a file. */
import { apis, type Api } from "./chat-client.ts";
import { join } from "node:path";

const here = import.meta.dirname;

export interface NodeVariant {
  readonly upstream?: object;
  readonly metering?: object;
  /** Stores that several gateways share. */
  readonly store?: { readonly postgres?: string; readonly redis?: string };
  /** The step in the place of `meter`. */
  readonly meter?: "meter" | "free";
}

/** Returns pipeline.yaml for node calls. Files of the gateway go to `folder`. */
export function nodePipeline(
  { upstream, metering = {}, store = {}, meter = "meter" }: NodeVariant,
  folder: string,
): string {
  return JSON.stringify({
    version: 1,
    server: { host: "127.0.0.1", port: "${PORT:-0}" },
    admin: { host: "127.0.0.1", port: "${ADMIN_PORT:-0}" },
    secret: "${GATEWAY_SECRET:-}",
    store: { data: "${DATA_DIR}", replica: "${REPLICA_NAME:-}", ...store },
    metering,
    plugins: meter === "free" ? { free: join(here, "free-of-charge.ts") } : {},
    plans: { enterprise: { rps: 1_000_000, includedCu: 9_000_000_000 } },
    upstreams: {
      ledger: { urls: "${LEDGER_RPC_URL}", methods: { system_health: {} }, ...upstream },
    },
    lists: {
      edge: [
        "request-id",
        { "access-log": { file: join(folder, "access.log") } },
        "authenticate",
        "rate-limit",
      ],
    },
    unmatched: ["request-id"],
    routes: [
      {
        path: "/v1/ledger/rpc",
        methods: ["POST"],
        run: [{ use: "edge" }, { authorize: { require: "ledger:read" } }, meter],
        to: { "ledger-rpc": { upstream: "ledger" } },
      },
    ],
  });
}

/** Returns pipeline.yaml for MCP. Files of the gateway go to `folder`. */
export function mcpPipeline(folder: string, meter: "meter" | "free" = "meter"): string {
  const edge = [
    "request-id",
    { "access-log": { file: join(folder, "access.log") } },
    "authenticate",
    "rate-limit",
  ];
  return JSON.stringify({
    version: 1,
    server: { host: "127.0.0.1", port: "${PORT:-0}" },
    admin: { host: "127.0.0.1", port: "${ADMIN_PORT:-0}" },
    store: { data: join(folder, "data") },
    plans: { enterprise: { rps: 1_000_000, includedCu: 9_000_000_000 } },
    plugins: {
      "mcp-tools": join(here, "mcp-tools.ts"),
      ...(meter === "free" && { free: join(here, "free-of-charge.ts") }),
    },
    tools: ["mcp-tools"],
    lists: { edge },
    unmatched: ["request-id"],
    routes: [
      {
        path: "/mcp",
        methods: ["POST", "DELETE"],
        run: [{ use: "edge" }, { authorize: { require: "key" } }, meter],
        // The load generator writes this into `Host`.
        to: { mcp: { hosts: ["bench", "127.0.0.1"] } },
      },
    ],
  });
}

/** Returns pipeline.yaml for an API for models. `model`: URL of the model server. `network`: options of its network. */
export function chatPipeline(
  model: string,
  folder: string,
  api: Api = "chat",
  network: object = {},
): string {
  const edge = [
    "request-id",
    { "access-log": { file: join(folder, "access.log") } },
    "authenticate",
    "rate-limit",
  ];
  return JSON.stringify({
    version: 1,
    server: { host: "127.0.0.1", port: "${PORT:-0}" },
    admin: { host: "127.0.0.1", port: "${ADMIN_PORT:-0}" },
    store: { data: join(folder, "data") },
    plans: { enterprise: { rps: 1_000_000, includedCu: 9_000_000_000 } },
    networks: {
      bench: { kind: "openai", url: model, status: { url: `${model}/status` }, ...network },
    },
    rate: "0.05",
    lists: { edge },
    unmatched: ["request-id"],
    routes: [
      {
        path: apis[api].path,
        methods: ["POST"],
        run: [{ use: "edge" }, { authorize: { require: "inference" } }, "meter"],
        to: api,
      },
    ],
  });
}
