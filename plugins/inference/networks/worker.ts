/**
 * A worker of a network and how it has been doing. One that fails is left out for a while, then asked a cheap question,
 * and comes back when it answers; the time it is left out doubles until it has served a request again.
 */
import type { Clock } from "../../../src/services/clock.ts";
import type { WorkerRoute } from "./worker-route.ts";
import type { ListedWorker } from "./status-document.ts";

/** An answer that fails may be the request's fault; as many in a row are the worker's. */
const failuresInRow = 3;
const minCooldownMs = 2_000;
const maxCooldownMs = 60_000;

export interface WorkerParts {
  readonly clock: Clock;
  /** Told when it is left out, and when it is back. */
  readonly onEjectionChange: (worker: Worker) => void;
}

export class Worker {
  readonly id: string;
  /** As its network lists it now. */
  listed: ListedWorker;
  readonly route: WorkerRoute;
  /** Requests that it is answering. */
  inFlight = 0;
  readonly #parts: WorkerParts;
  #failures = 0;
  #cooldownMs = 0;
  #cooldown: Disposable | undefined;
  #closed = false;

  /** Closes `route` when it is closed. */
  constructor(listed: ListedWorker, route: WorkerRoute, parts: WorkerParts) {
    this.id = listed.id;
    this.listed = listed;
    this.route = route;
    this.#parts = parts;
  }

  /** Left out: others come first. */
  get isEjected(): boolean {
    return this.#cooldown !== undefined;
  }

  /** It has answered a request to the end. */
  succeeded(): void {
    this.#failures = 0;
    this.#cooldownMs = 0;
    this.#readmit();
  }

  /** `unreachable`: no connection, which no request is to blame for. */
  failed(unreachable: boolean): void {
    this.#failures++;
    if (unreachable || this.#failures >= failuresInRow) this.#eject();
  }

  /** May get requests. */
  get isAvailable(): boolean {
    return this.listed.state !== "draining" && this.route.admitted;
  }

  /** Ends its timer and its route. */
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
    const rest = this.#cooldown;
    const answers = await this.route.probe();
    // Meanwhile it may have served a request, and failed another.
    if (this.#closed || rest === undefined || this.#cooldown !== rest) return;
    if (answers) return this.#readmit();
    this.#cooldownMs = Math.min(this.#cooldownMs * 2, maxCooldownMs);
    this.#cooldown = this.#parts.clock.after(this.#cooldownMs, () => void this.#probe());
  }

  #readmit(): void {
    if (this.#cooldown === undefined) return;
    this.#cooldown[Symbol.dispose]();
    this.#cooldown = undefined;
    // One more failure is enough to leave it out again.
    this.#failures = failuresInRow - 1;
    this.#parts.onEjectionChange(this);
  }
}
