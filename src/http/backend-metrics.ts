import type { ComputedValue, RenderedMetrics } from "../base/metrics.ts";
import type { BackendStatus } from "../plugin.ts";
import { serversOf } from "./backend-servers.ts";
import { configuredBackends } from "./readiness.ts";

export function backendMetrics(
  metrics: Pick<RenderedMetrics, "computed">,
  backends: () => readonly BackendStatus[],
): void {
  metrics.computed(
    "sluice_backend_up",
    "1 if a node, a worker or a URL of the backend can be used, else 0. Missing for a default address that nobody configured.",
    () =>
      configuredBackends(backends()).map(({ kind, title, ready }) => ({
        labels: { kind, backend: title },
        value: ready === true ? 1 : 0,
      })),
  );
  metrics.computed(
    "sluice_backend_servers",
    "Number of nodes, workers or URLs of the backend, by state.",
    () => backends().flatMap(serverCounts),
  );
}

function serverCounts(backend: BackendStatus): ComputedValue[] {
  const { kind, title } = backend;
  const byState = Map.groupBy(serversOf(backend), ({ state }) => state);
  return [...byState].map(([state, servers]) => ({
    labels: { kind, backend: title, state },
    value: servers.length,
  }));
}
