/**
 * One caller whose requests take long cannot hold up the others: a caller may take another connection while it holds
 * fewer than are free, so at most half of those that others leave. Callers that wait get connections in turn.
 */
import type { Clock } from "../../../contract/clock.ts";
import { WaitLimit } from "../../../base/wait-limit.ts";
import type { WaitingExchange } from "./waiting-exchange.ts";

export interface Lane {
  /** False for exchanges without a caller, which may take every connection. */
  readonly isLimited: boolean;
  busy: number;
  waiting: WaitLimit<WaitingExchange> | undefined;
  /** True while the lane is in the list of those that wait. */
  isInTurn: boolean;
}

/** Lanes of idle callers are kept, because a caller often returns, until there are this many. */
const maxLanes = 1_000;

export class FairShare {
  readonly #connections: number;
  readonly #maxWaiting: number;
  readonly #waitMs: number;
  readonly #clock: Clock;
  readonly #lanes = new Map<string, Lane>();
  readonly #others: Lane = newLane(false);
  /** The lanes with exchanges that wait. The first one is next. */
  readonly #turns: Lane[] = [];
  #busy = 0;

  /** `connections`: their maximum number. `maxWaiting`: maximum number of exchanges that wait, each for `waitMs`. */
  constructor(connections: number, maxWaiting: number, waitMs: number, clock: Clock) {
    this.#connections = connections;
    this.#maxWaiting = maxWaiting;
    this.#waitMs = waitMs;
    this.#clock = clock;
  }

  get waiting(): number {
    let waiting = 0;
    for (const lane of this.#turns) waiting += sizeOf(lane);
    return waiting;
  }

  laneOf(caller: string | undefined): Lane {
    if (caller === undefined) return this.#others;
    const known = this.#lanes.get(caller);
    if (known !== undefined) return known;
    if (this.#lanes.size >= maxLanes) this.#removeIdle();
    const lane: Lane = newLane(true);
    this.#lanes.set(caller, lane);
    return lane;
  }

  mayTake({ isLimited, busy }: Lane): boolean {
    const free = this.#connections - this.#busy;
    return isLimited && busy > 0 ? busy < free : free > 0;
  }

  took(lane: Lane): void {
    this.#busy++;
    lane.busy++;
  }

  released(lane: Lane): void {
    this.#busy--;
    lane.busy--;
  }

  /** Undefined if the queue is full. */
  queueOf(lane: Lane): WaitLimit<WaitingExchange> | undefined {
    const room = this.#maxWaiting - this.waiting;
    if (lane.isLimited ? sizeOf(lane) >= room : room <= 0) return undefined;
    if (!lane.isInTurn) this.#turns.push(lane);
    lane.isInTurn = true;
    return (lane.waiting ??= new WaitLimit(this.#clock, this.#waitMs));
  }

  /** Removes and returns the next exchange that may have a connection. Undefined if there is none. */
  next(): { readonly waiting: WaitingExchange; readonly lane: Lane } | undefined {
    for (let left = this.#turns.length; left > 0; left--) {
      const lane = this.#turns.shift();
      const waiting = lane?.waiting?.oldest;
      if (lane === undefined) return undefined;
      lane.isInTurn = waiting !== undefined;
      if (waiting === undefined) continue;
      this.#turns.push(lane);
      if (!this.mayTake(lane)) continue;
      lane.waiting?.end(waiting);
      return { waiting, lane };
    }
    return undefined;
  }

  close(): WaitingExchange[] {
    const all: WaitingExchange[] = [];
    for (const { waiting } of [...this.#lanes.values(), this.#others]) {
      waiting?.close();
      for (let next = waiting?.oldest; next !== undefined; next = waiting?.oldest) {
        waiting?.end(next);
        all.push(next);
      }
    }
    return all;
  }

  #removeIdle(): void {
    for (const [caller, lane] of this.#lanes) {
      if (lane.busy > 0 || lane.isInTurn) continue;
      lane.waiting?.close();
      this.#lanes.delete(caller);
    }
  }
}

function newLane(isLimited: boolean): Lane {
  return { isLimited, busy: 0, waiting: undefined, isInTurn: false };
}

function sizeOf({ waiting }: Lane): number {
  return waiting === undefined ? 0 : waiting.size;
}
