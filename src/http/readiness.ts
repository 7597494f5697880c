/** Decides whether the gateway can serve: the answer of /readyz. */
import { isObject } from "../is-object.ts";
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
  const required = new Set(requiredBackends(backends));
  for (const backend of backends) {
    const note = required.has(backend) ? "" : ", not required: its address is a default";
    checks[backend.title] = backend.ready === true ? "ok" : `${backend.ready}${note}`;
  }
  for (const kind of Map.groupBy(backends, (backend) => backend.kind).values()) {
    if (
      kind.some((backend) => required.has(backend)) &&
      !kind.some((backend) => backend.ready === true)
    )
      ready = false;
  }
  return { ready, checks };
}

/** Leaves out the backends at a default address, unless every backend is at one. */
export function requiredBackends(backends: readonly BackendStatus[]): readonly BackendStatus[] {
  const configured = backends.filter(({ isDefault }) => isDefault !== true);
  return configured.length === 0 ? backends : configured;
}

function checksOf(name: string, service: ServiceHooks<unknown>): Record<string, string> {
  if (service.ready === undefined) return {};
  const checks = reportOf(() => service.ready?.());
  const own = `service ${name}`;
  if (!isObject(checks)) return { [own]: stateOf(checks) };
  return Object.fromEntries(
    Object.entries(checks).map(([check, value]) => [check, stateOf(value)]),
  );
}

function stateOf(value: unknown): string {
  if (value === true) return "ok";
  return typeof value === "string" ? value : "failed to report";
}

/**
 * Returns what a service reports, or undefined if it throws or returns a promise. A service can be the code of a third
 * party, and a probe must get an answer.
 */
function reportOf(report: () => unknown): unknown {
  try {
    const value = report();
    if (!(value instanceof Promise)) return value;
    // Nothing waits for the promise, so its rejection would end the process.
    value.catch(() => {});
  } catch {
    // The check says that the service has failed to report.
  }
  return undefined;
}

/** Returns the backends of all services. What a service reports in another form is left out. */
export function backendsOf({ services }: Pick<Generation, "services">): BackendStatus[] {
  return [...services.values()].flatMap((service) => {
    const reported = reportOf(() => service.backends?.());
    return Array.isArray(reported) ? reported.filter(isBackend) : [];
  });
}

function isBackend(value: unknown): value is BackendStatus {
  if (!isObject(value)) return false;
  const { kind, title, ready } = value;
  const isState = ready === true || typeof ready === "string";
  return typeof kind === "string" && typeof title === "string" && isState;
}
