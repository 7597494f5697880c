/** Starts a gateway with `ledger-ws` in front of nodes, on core 0. */
import { pipeline } from "../load/pipelines.ts";
import { startSluice, type StartedSluice } from "../load/start-sluice.ts";
import type { BenchNode } from "./node.ts";

export function startGateway(folder: string, nodes: readonly BenchNode[]): Promise<StartedSluice> {
  const ledger = { urls: nodes.map(({ url }) => url) };
  const ws = { upstream: "ledger", connectionsPerKey: 10_000, followsPerKey: 10_000 };
  const route = { path: "/v1/ledger/rpc", websocket: true, to: { "ledger-ws": ws } };
  const sections = { upstreams: { ledger } };
  return startSluice(pipeline({ folder, require: "ledger:read", sections, route }), folder, 0);
}
