/** How the backends are, node by node and worker by worker, and the process itself. */
import type { DashboardParts } from "./parts.ts";

export function health(parts: DashboardParts): object {
  const { ledgers, upstreams, networks, number } = parts.generation();
  const { ready, checks } = parts.ready();
  return {
    ready,
    checks,
    reload: { generation: number, ...parts.reload() },
    process: {
      uptime_seconds: Math.floor(process.uptime()),
      memory_bytes: process.memoryUsage.rss(),
    },
    ledgers: Array.from(ledgers, ([name, ledger]) => ({
      name,
      ready: ledger.ready,
      nodes: (ledger.nodes?.() ?? []).map(({ node, complaint, best, finalized, inFlight }) => ({
        name: node,
        state: complaint ?? "usable",
        best,
        finalized,
        in_flight: inFlight,
      })),
    })),
    upstreams: Array.from(upstreams, ([name, upstream]) => ({
      name,
      ready: upstream.ready,
      urls: upstream.members.map(({ url, isUnreachable }) => ({
        // Without credentials and path.
        name: url.host,
        state: isUnreachable ? "unreachable" : "usable",
      })),
    })),
    networks: networks.map((network) => ({
      name: network.name,
      ready: network.ready,
      models: network.models.size,
      workers: Array.from(network.workers ?? [], (worker) => ({
        name: worker.id,
        model: worker.listed.model,
        state: workerState(worker),
        in_flight: worker.inFlight,
      })),
    })),
  };
}

function workerState(worker: {
  readonly isEjected: boolean;
  readonly isAvailable: boolean;
  readonly listed: { readonly state: string };
}): string {
  if (worker.isEjected) return "left out";
  return worker.isAvailable || worker.listed.state === "draining"
    ? worker.listed.state
    : "not admitted";
}
