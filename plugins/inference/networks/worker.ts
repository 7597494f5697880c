/**
 * A worker of a network and its health. A worker that fails is ejected for a cooldown, then probed with a cheap
 * request, and readmitted if it answers. The cooldown doubles until the worker has served a request again.
 */
import type { Clock } from "../../../src/services/clock.ts";
import type {
  ListedWorker,
  NetworkWorker,
  WorkerRoute,
} from "../../../src/services/network-kinds.ts";

/** Number of failed answers in a row that eject a worker. A single failure may be the request's fault. */
const maxFailuresInRow = 3;
const minCooldownMs = 2_000;
const maxCooldownMs = 60_000;

export interface WorkerParts {
  readonly clock: Clock;
  /** Called when the worker is ejected and when it is readmitted. */
  readonly onEjectionChange: (worker: Worker) => void;
}

export class Worker implements NetworkWorker {
  readonly id: string;
  /** The current entry of the worker in its network. */
  listed: ListedWorker;
  readonly route: WorkerRoute;
  /** Number of requests in flight. */
  inFlight = 0;
  readonly #parts: WorkerParts;
  #failures = 0;
  #cooldownMs = 0;
  #cooldown: Disposable | undefined;
  #closed = false;

  /** `route`: the route to the worker, which `close` closes. */
  constructor(listed: ListedWorker, route: WorkerRoute, parts: WorkerParts) {
    this.id = listed.id;
    this.listed = listed;
    this.route = route;
    this.#parts = parts;
  }

  /** True during the cooldown. Other workers are then preferred. */
  get isEjected(): boolean {
    return this.#cooldown !== undefined;
  }

  /** Called when the worker has answered a request completely. */
  succeeded(): void {
    this.#failures = 0;
    this.#cooldownMs = 0;
    this.#readmit();
  }

  /**
   * Called when a request has failed. `unreachable`: there was no connection, which cannot be the fault of a request.
   */
  failed(unreachable: boolean): void {
    this.#failures++;
    if (unreachable || this.#failures >= maxFailuresInRow) this.#eject();
  }

  /** True if the worker may get requests. */
  get isAvailable(): boolean {
    return this.listed.state !== "draining" && this.route.admitted;
  }

  /** Stops the timer and closes the route. */
  close(): void {
    this.#closed = true;
    this.#cooldown?.[Symbol.dispose]();
    this.route.close();
  }

  #eject(): void {
    if (this.#cooldown !== undefined || this.#closed) return;
    this.#cooldownMs = Math.min(Math.max(this.#cooldownMs * 2, minCooldownMs), maxCooldownMs);
    this.#cooldown = this.#parts.clock.after(this.#cooldownMs, () => void this.#probe());
    this.#parts.onEjectionChange(this);
  }

  async #probe(): Promise<void> {
    const cooldown = this.#cooldown;
    const answers = await this.route.probe();
    // During the probe, the worker may have served a request and failed another.
    if (this.#closed || cooldown === undefined || this.#cooldown !== cooldown) return;
    if (answers) return this.#readmit();
    this.#cooldownMs = Math.min(this.#cooldownMs * 2, maxCooldownMs);
    this.#cooldown = this.#parts.clock.after(this.#cooldownMs, () => void this.#probe());
  }

  #readmit(): void {
    if (this.#cooldown === undefined) return;
    this.#cooldown[Symbol.dispose]();
    this.#cooldown = undefined;
    // One more failure is enough to leave it out again.
    this.#failures = maxFailuresInRow - 1;
    this.#parts.onEjectionChange(this);
  }
}
