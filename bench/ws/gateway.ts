/** Starts a gateway with `ledger-ws` in front of nodes, on core 0, and a key that no limit stops. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { issueKey } from "../load/key.ts";
import { startPeer, type Peer } from "../load/process.ts";
import type { BenchNode } from "./node.ts";

const root = join(import.meta.dirname, "../..");

function pipeline(): string {
  return JSON.stringify({
    version: 1,
    server: { host: "127.0.0.1", port: 0 },
    admin: { host: "127.0.0.1", port: 0 },
    store: { data: "${DATA_DIR}" },
    plans: { enterprise: { rps: 1_000_000, includedCu: 9_000_000_000 } },
    upstreams: { ledger: { urls: "${LEDGER_RPC_URL}" } },
    unmatched: ["request-id"],
    routes: [
      {
        path: "/v1/ledger/rpc",
        websocket: true,
        run: [
          "request-id",
          "authenticate",
          "rate-limit",
          { authorize: { require: "ledger:read" } },
          "meter",
        ],
        to: {
          "ledger-ws": { upstream: "ledger", connectionsPerKey: 10_000, followsPerKey: 10_000 },
        },
      },
    ],
  });
}

/** `folder`: an empty folder for the data. */
export async function startGateway(
  folder: string,
  nodes: readonly BenchNode[],
): Promise<{ readonly peer: Peer; readonly key: string }> {
  const file = join(folder, "pipeline.yaml");
  writeFileSync(file, pipeline());
  const env = {
    DATA_DIR: join(folder, "data"),
    LEDGER_RPC_URL: nodes.map(({ url }) => url).join(","),
  };
  const key = issueKey(file, env);
  const args = [join(root, "src/main.ts"), "start", "--json", "--config", file];
  return { peer: await startPeer([process.execPath, ...args], { core: 0, env }), key };
}
