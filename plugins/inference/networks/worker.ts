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
  listed: ListedWorker;
  readonly route: WorkerRoute;
  readonly load: WorkerLoad;
  readonly #deps: WorkerDeps;
  readonly #ejection: Ejection;
  #closed = false;

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

  succeeded(): void {
    if (this.#ejection.succeeded()) this.#deps.onEjectionChange(this);
  }

  get ejection(): Pick<Ejection, "cause" | "absence"> {
    return this.#ejection;
  }

  /** A missing connection cannot be the fault of the request. */
  failed(failure: UpstreamFailure): void {
    if (this.#closed || !this.#ejection.failed(isUnreachable(failure))) return;
    this.#ejection.eject(failure);
    this.#deps.onEjectionChange(this);
  }

  get isAvailable(): boolean {
    return this.listed.state !== "draining" && this.route.admitted;
  }

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

export function isUnreachable({ kind }: UpstreamFailure): boolean {
  return kind === "refused" || kind === "connectTimeout" || kind === "saturated";
}
