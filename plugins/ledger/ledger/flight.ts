/**
 * One call at the nodes and everybody who waits for it. It belongs to none of them: a client that leaves takes nothing
 * with it. When it fails, it fails for all: the pool has by then tried what could be tried, and each of them asking
 * again would only add to the load that made it fail.
 */
import { bodyOf, type Body } from "./body.ts";
import type { Lane } from "./lane.ts";
import type { NodeFailure, NodeRequest } from "./node.ts";

/** Hears how a call ended: exactly one of the two, once, and never while it is being asked for. It must not throw. */
export interface Waiter {
  /** A Buffer is borrowed: copy what outlives the call. */
  answered(kind: "result" | "error", body: Body): void;
  failed(reason: NodeFailure): void;
}

/** What a flight tells when it lands, before those who wait hear of it. */
export interface Tower {
  landed(flight: Flight, kind: "result" | "error", body: Body): void;
  lost(flight: Flight, reason: NodeFailure): void;
}

export class Flight implements NodeRequest {
  readonly lane: Lane;
  readonly params: string;
  /** The params as a key; undefined: the flight is not shared and its answer not kept. */
  readonly key: string | undefined;
  /** What the pool knew when this was sent. */
  readonly epoch: number;
  readonly finalized: number | undefined;
  readonly #tower: Tower;
  readonly #first: Waiter;
  #others: Waiter[] | undefined;

  constructor(
    lane: Lane,
    params: string,
    key: string | undefined,
    known: { readonly epoch: number; readonly finalized: number | undefined },
    tower: Tower,
    waiter: Waiter,
  ) {
    this.lane = lane;
    this.params = params;
    this.key = key;
    this.epoch = known.epoch;
    this.finalized = known.finalized;
    this.#tower = tower;
    this.#first = waiter;
  }

  get method(): string {
    return this.lane.method.nodeName;
  }
  get retry(): boolean {
    return this.lane.method.retry;
  }
  get cheap(): boolean {
    return this.lane.method.cheap;
  }

  join(waiter: Waiter): void {
    if (this.#others === undefined) this.#others = [waiter];
    else this.#others.push(waiter);
  }

  answered(kind: "result" | "error", bytes: Buffer, start: number, end: number): void {
    const body = bodyOf(bytes, start, end);
    this.#tower.landed(this, kind, body);
    this.#first.answered(kind, body);
    if (this.#others === undefined) return;
    for (const waiter of this.#others) waiter.answered(kind, body);
  }

  failed(reason: NodeFailure): void {
    this.#tower.lost(this, reason);
    this.#first.failed(reason);
    if (this.#others === undefined) return;
    for (const waiter of this.#others) waiter.failed(reason);
  }
}
