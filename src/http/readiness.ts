import type { ServerConfig } from "../config/config.ts";
import { isObject } from "../base/is-object.ts";
import type { Generation } from "../pipeline/load/generation.ts";
import type { BackendStatus, Clock, ServiceHooks } from "../plugin.ts";

export interface Readiness {
  readonly ready: boolean;
  /** Maps each check to `ok`, or to the reason why it failed. */
  readonly checks: Readonly<Record<string, string>>;
  readonly backends?: Readonly<Record<string, BackendReport>>;
}

/** A backend in the answer of /readyz. Everyone can read it, so it contains no address and no text of the backend. */
interface BackendReport {
  readonly state: "ok" | "unusable";
  /** Time at which the state was first observed (RFC 3339). */
  readonly since: string;
  readonly cause?: string;
}

/** The answer to `/healthz`: the process runs. */
export const alive: Readiness = { ready: true, checks: {} };

export function healthAnswer({ ready, ...report }: Readiness): {
  readonly status: number;
  readonly body: string;
} {
  const status = ready ? "ok" : "unavailable";
  return { status: ready ? 200 : 503, body: JSON.stringify({ status, ...report }) };
}

interface ReadinessDeps {
  readonly draining: boolean;
  readonly generation: Pick<Generation, "services">;
  /** Default: those of the generation. */
  readonly backends?: readonly BackendStatus[];
  /** Whether all threads serve, or what is missing. Undefined if one thread serves all requests. */
  readonly threads?: true | string;
  readonly wanted?: ServerConfig["ready"];
}

const maxCauseChars = 100;
const watchMs = 1_000;

export class ReadinessWatch implements Disposable {
  readonly #deps: () => ReadinessDeps;
  readonly #clock: Clock;
  readonly #timer: Disposable;
  #seen = new Map<string, BackendReport>();

  constructor(deps: () => ReadinessDeps, clock: Clock) {
    this.#deps = deps;
    this.#clock = clock;
    this.#timer = clock.every(watchMs, () => this.report());
  }

  report(): Readiness {
    const deps = this.#deps();
    const backends = deps.backends ?? backendsOf(deps.generation);
    const seen = new Map(backends.map((backend) => [backend.title, this.#reportOf(backend)]));
    this.#seen = seen;
    return { ...readinessOf(deps, backends), backends: Object.fromEntries(seen) };
  }

  #reportOf({ title, ready, cause }: BackendStatus): BackendReport {
    const state = ready === true ? "ok" : "unusable";
    const last = this.#seen.get(title);
    const since = last?.state === state ? last.since : new Date(this.#clock.now()).toISOString();
    const hasCause = ready !== true && typeof cause === "string";
    return { state, since, ...(hasCause && { cause: cause.slice(0, maxCauseChars) }) };
  }

  [Symbol.dispose](): void {
    this.#timer[Symbol.dispose]();
  }
}

export function readiness(deps: ReadinessDeps): Readiness {
  return readinessOf(deps, backendsOf(deps.generation));
}

/**
 * The gateway is ready if it is not draining, every service is ready, and at least one backend can be used
 * (decisions.md sections 4 and 13). Neither a backend at a default address nor an optional one counts, unless every
 * backend is at a default. `wanted` asks for more.
 */
function readinessOf(
  { draining, generation, threads, wanted = "any" }: ReadinessDeps,
  backends: readonly BackendStatus[],
): Readiness {
  const checks: Record<string, string> = { draining: draining ? "draining" : "ok" };
  if (threads !== undefined) checks["threads"] = stateOf(threads);
  const services = [...generation.services];
  for (const [name, service] of services) Object.assign(checks, checksOf(name, service));
  let ready = Object.values(checks).every((state) => state === "ok");
  const configured = new Set(configuredBackends(backends));
  const wantedNames: readonly string[] = typeof wanted === "string" ? [] : wanted;
  const isNamed = ({ title }: BackendStatus): boolean =>
    wantedNames.some((name) => names(name, title));
  const noteOf = (backend: BackendStatus): string => {
    if (isNamed(backend)) return "";
    if (backend.isOptional === true) return ", not required";
    return configured.has(backend) ? "" : ", not required: its address is a default";
  };
  const counted = backends.filter((backend) => noteOf(backend) === "");
  for (const backend of backends) {
    checks[backend.title] = backend.ready === true ? "ok" : `${backend.ready}${noteOf(backend)}`;
  }
  const isUsable = (backend: BackendStatus): boolean => backend.ready === true;
  if (counted.length > 0 && !counted.some(isUsable)) ready = false;
  if (wanted === "all" && !counted.every(isUsable)) ready = false;
  for (const name of wantedNames) {
    const found = backends.filter(({ title }) => names(name, title));
    if (found.length === 0) checks[name] = "no backend of this name is in use";
    if (found.length === 0 || !found.every(isUsable)) ready = false;
  }
  return { ready, checks };
}

/** Returns true if an entry of `server.ready` names the check: `main` and `upstream main` name the same one. */
function names(name: string, title: string): boolean {
  return title === name || title.slice(title.indexOf(" ") + 1) === name;
}

/** Leaves out the backends at a default address, unless every backend is at one. */
export function configuredBackends(backends: readonly BackendStatus[]): readonly BackendStatus[] {
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

/** Values in another form are left out. */
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
