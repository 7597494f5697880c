/**
 * A worker of a network and how it has been doing. One that fails is left out for a while, then asked a cheap question,
 * and comes back when it answers; the time it is left out doubles until it has served a request again.
 */
import type { Clock } from "../../../src/services/clock.ts";
import type { WorkerRoute } from "./route.ts";
import type { ListedWorker } from "./status.ts";

/** An answer that fails may be the request's fault; as many in a row are the worker's. */
const failuresInRow = 3;
const shortestRestMs = 2_000;
const longestRestMs = 60_000;

export interface WorkerParts {
  readonly clock: Clock;
  /** Told when it is left out, and when it is back. */
  readonly noticed: (worker: Worker) => void;
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
  #restMs = 0;
  #rest: Disposable | undefined;
  #closed = false;

  /** Closes `route` when it is closed. */
  constructor(listed: ListedWorker, route: WorkerRoute, parts: WorkerParts) {
    this.id = listed.id;
    this.listed = listed;
    this.route = route;
    this.#parts = parts;
  }

  /** Left out: others come first. */
  get resting(): boolean {
    return this.#rest !== undefined;
  }

  /** It has answered a request to the end. */
  succeeded(): void {
    this.#failures = 0;
    this.#restMs = 0;
    this.#return();
  }

  /** `unreachable`: no connection, which no request is to blame for. */
  failed(unreachable: boolean): void {
    this.#failures++;
    if (unreachable || this.#failures >= failuresInRow) this.#leaveOut();
  }

  /** May get requests. */
  get offered(): boolean {
    return this.listed.state !== "draining" && this.route.admitted;
  }

  /** Ends its timer and its route. */
  close(): void {
    this.#closed = true;
    this.#rest?.[Symbol.dispose]();
    this.route.close();
  }

  #leaveOut(): void {
    if (this.#rest !== undefined || this.#closed) return;
    this.#restMs = Math.min(Math.max(this.#restMs * 2, shortestRestMs), longestRestMs);
    this.#rest = this.#parts.clock.after(this.#restMs, () => void this.#ask());
    this.#parts.noticed(this);
  }

  async #ask(): Promise<void> {
    const rest = this.#rest;
    const answers = await this.route.probe();
    // Meanwhile it may have served a request, and failed another.
    if (this.#closed || rest === undefined || this.#rest !== rest) return;
    if (answers) return this.#return();
    this.#restMs = Math.min(this.#restMs * 2, longestRestMs);
    this.#rest = this.#parts.clock.after(this.#restMs, () => void this.#ask());
  }

  #return(): void {
    if (this.#rest === undefined) return;
    this.#rest[Symbol.dispose]();
    this.#rest = undefined;
    // One more failure is enough to leave it out again.
    this.#failures = failuresInRow - 1;
    this.#parts.noticed(this);
  }
}
