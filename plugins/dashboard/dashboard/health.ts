/** How the backends are, node by node and worker by worker, and the process itself. */
import type { ServiceHooks } from "../../../src/plugin.ts";
import type { DashboardParts } from "./parts.ts";

export function health(parts: DashboardParts): object {
  const { services, networks, number } = parts.generation();
  const { ready, checks } = parts.ready();
  return {
    ready,
    checks,
    reload: { generation: number, ...parts.reload() },
    process: {
      uptime_seconds: Math.floor(process.uptime()),
      memory_bytes: process.memoryUsage.rss(),
    },
    ledgers: backendsOf(services, "ledger"),
    upstreams: backendsOf(services, "upstream"),
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

function backendsOf(
  services: ReadonlyMap<string, ServiceHooks<unknown>>,
  kind: string,
): (object | undefined)[] {
  return [...services.values()]
    .flatMap((service) => service.backends?.() ?? [])
    .flatMap((backend) => (backend.kind === kind ? [backend.details] : []));
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
