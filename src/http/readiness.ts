/** Decides whether the gateway can serve: the answer of /readyz. */
import type { Generation } from "../pipeline/load/generation.ts";
import type { BackendStatus, ServiceHooks } from "../plugin.ts";

export interface Readiness {
  readonly ready: boolean;
  /** Maps each check to `ok`, or to the reason why it failed. */
  readonly checks: Readonly<Record<string, string>>;
}

/**
 * The gateway is ready if it is not draining, every service is ready, and at least one backend of each kind in use is
 * (decisions.md sections 4 and 13). A backend at a default address does not count, unless every backend is at one.
 */
export function readiness(parts: {
  readonly draining: boolean;
  readonly generation: Pick<Generation, "services">;
}): Readiness {
  const { draining, generation } = parts;
  const checks: Record<string, string> = { draining: draining ? "draining" : "ok" };
  const services = [...generation.services];
  for (const [name, service] of services) Object.assign(checks, checksOf(name, service));
  let ready = Object.values(checks).every((state) => state === "ok");
  const backends = backendsOf(generation);
  const isAnyConfigured = backends.some(({ isDefault }) => isDefault !== true);
  const counts = ({ isDefault }: BackendStatus): boolean => isDefault !== true || !isAnyConfigured;
  for (const backend of backends) {
    const note = counts(backend) ? "" : ", not required: its address is a default";
    checks[backend.title] = backend.ready === true ? "ok" : `${backend.ready}${note}`;
  }
  for (const kind of Map.groupBy(backends, (backend) => backend.kind).values()) {
    if (kind.some(counts) && !kind.some((backend) => backend.ready === true)) ready = false;
  }
  return { ready, checks };
}

function checksOf(name: string, service: ServiceHooks<unknown>): Record<string, string> {
  const state = reportOf(service);
  if (state === undefined) return {};
  const checks = typeof state === "object" ? state : { [`service ${name}`]: state };
  return Object.fromEntries(
    Object.entries(checks).map(([check, value]) => [check, value === true ? "ok" : value]),
  );
}

/** A service can be the code of a third party, and a probe must get an answer. */
function reportOf(
  service: ServiceHooks<unknown>,
): ReturnType<NonNullable<typeof service.ready>> | undefined {
  try {
    return service.ready?.();
  } catch {
    return "failed to report";
  }
}

/** Returns the backends of all services. */
export function backendsOf({ services }: Pick<Generation, "services">): BackendStatus[] {
  return [...services.values()].flatMap(reportedBackends);
}

function reportedBackends(service: ServiceHooks<unknown>): readonly BackendStatus[] {
  try {
    return service.backends?.() ?? [];
  } catch {
    return [];
  }
}
