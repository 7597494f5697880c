import { isObject } from "../base/is-object.ts";
import type { ComputedValue, RenderedMetrics } from "../base/metrics.ts";
import type { BackendStatus } from "../plugin.ts";
import { configuredBackends } from "./readiness.ts";

interface BackendServer {
  readonly name: string;
  /** `usable`, `active`, `busy`, or a word that says why the server is not used. */
  readonly state: string;
  readonly reason?: string | undefined;
}

/** Members in an unexpected form are left out, because a service can be the code of a third party. */
function serversOf({ details }: Pick<BackendStatus, "details">): BackendServer[] {
  if (!isObject(details)) return [];
  const { urls, nodes, workers } = details;
  return [urls, nodes, workers].flatMap((list) =>
    (Array.isArray(list) ? (list as unknown[]) : []).flatMap((server) => {
      if (!isObject(server)) return [];
      const { name, state, reason } = server;
      if (typeof name !== "string" || typeof state !== "string") return [];
      return [{ name, state, ...(typeof reason === "string" && { reason }) }];
    }),
  );
}

/** States of servers that are in use, or that an operator or the network has taken out of use. */
const expectedStates = new Set(["usable", "active", "busy", "draining", "not admitted"]);

export function failingServers(status: Pick<BackendStatus, "details">): BackendServer[] {
  return serversOf(status).filter(({ state }) => !expectedStates.has(state));
}

/**
 * Returns each of the backends `own`, or what a thread sees of it in which fewer of its servers can be used: only a
 * thread that uses a backend notices some failures.
 */
export function worstBackends(
  own: readonly BackendStatus[],
  inThreads: readonly BackendStatus[],
): readonly BackendStatus[] {
  return own.map((backend) =>
    inThreads
      .filter(({ kind, title }) => kind === backend.kind && title === backend.title)
      .reduce((worst, each) => (failures(each) > failures(worst) ? each : worst), backend),
  );
}

function failures(backend: BackendStatus): number {
  return backend.ready === true ? failingServers(backend).length : Infinity;
}

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
