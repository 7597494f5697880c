/** A worker of a network, its health and its load. */
import { Ejection, type Backend, type EjectionPolicy } from "sluice-gateway/internal/http";
import type { Clock, UpstreamFailure } from "sluice-gateway/plugin";
import type { ListedWorker, NetworkWorker, WorkerRoute } from "sluice-gateway/services";
import type { WorkerLoad } from "./worker-load.ts";

const ejectionPolicy: EjectionPolicy = {
  // More than one, because a single failure may be the fault of the request.
  failures: 3,
  failuresAfterReturn: 1,
  firstMs: 2_000,
  maxMs: 60_000,
  jitter: 0,
};

export interface WorkerDeps {
  readonly load: WorkerLoad;
  readonly clock: Clock;
  readonly onEjectionChange: (worker: Worker) => void;
}

export class Worker implements NetworkWorker, Backend {
  readonly id: string;
  /** The current entry of the worker in its network. */
  listed: ListedWorker;
  readonly route: WorkerRoute;
  readonly load: WorkerLoad;
  readonly #deps: WorkerDeps;
  readonly #ejection: Ejection;
  #closed = false;

  /** `route`: the route to the worker, which `close` closes. */
  constructor(listed: ListedWorker, route: WorkerRoute, deps: WorkerDeps) {
    this.id = listed.id;
    this.listed = listed;
    this.route = route;
    this.load = deps.load;
    this.#deps = deps;
    this.#ejection = new Ejection(ejectionPolicy, deps.clock, () => void this.#probe());
  }

  get inFlight(): number {
    return this.load.total;
  }

  get isEjected(): boolean {
    return this.#ejection.isEjected;
  }

  /** Called when the worker has answered a request completely. */
  succeeded(): void {
    if (this.#ejection.succeeded()) this.#deps.onEjectionChange(this);
  }

  /** The reason for which the worker is ejected, and the time of the next probe. */
  get ejection(): Pick<Ejection, "cause" | "absence"> {
    return this.#ejection;
  }

  /** Called when a request has failed. A missing connection cannot be the fault of the request. */
  failed(failure: UpstreamFailure): void {
    if (this.#closed || !this.#ejection.failed(isUnreachable(failure))) return;
    this.#ejection.eject(failure);
    this.#deps.onEjectionChange(this);
  }

  get isAvailable(): boolean {
    return this.listed.state !== "draining" && this.route.admitted;
  }

  /** Closes the route and stops the probes. */
  close(): void {
    this.#closed = true;
    this.#ejection.close();
    this.route.close();
  }

  async #probe(): Promise<void> {
    const { cause } = this.#ejection;
    if (cause === undefined) return;
    const isGood = await this.route.probe(cause);
    if (this.#ejection.probed(isGood)) this.#deps.onEjectionChange(this);
  }
}

/** Returns true if no connection was made. */
export function isUnreachable({ kind }: UpstreamFailure): boolean {
  return kind === "refused" || kind === "connectTimeout" || kind === "saturated";
}
