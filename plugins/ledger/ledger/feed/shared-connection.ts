/**
 * The WebSocket that carries the shared subscriptions of a pool: at most one at a time, to the best node. It is lost if its
 * node breaks the connection or the protocol, or if the pool no longer uses that node but another one.
 */
import type { Clock, Log } from "sluice-gateway/plugin";
import type { NodePool, NodeTarget } from "../node-pool.ts";
import { FeedConnection, type FeedLimits } from "./feed-connection.ts";
import { TargetChoice } from "./target-choice.ts";

const checkMs = 1_000;

export interface SharedConnectionParts {
  readonly pool: Pick<NodePool, "targets">;
  readonly clock: Clock;
  readonly log: Log;
  readonly limits: FeedLimits;
  /** The message for the log when the node is lost. */
  readonly lostMessage: string;
  /** Called when the node is lost. There is no connection then, and `open` chooses another node if there is one. */
  readonly onLost: () => void;
}

export class SharedConnection {
  readonly #parts: SharedConnectionParts;
  readonly #nodes: TargetChoice;
  readonly #check: Disposable;
  #current: FeedConnection | undefined;
  #target: NodeTarget | undefined;
  #isClosed = false;

  constructor(parts: SharedConnectionParts) {
    this.#parts = parts;
    this.#nodes = new TargetChoice(parts.pool, parts.clock);
    this.#check = parts.clock.every(checkMs, () => {
      if (this.#target === undefined || !this.#nodes.isUnusable(this.#target)) return;
      this.lose("the node is not usable");
    });
  }

  get current(): FeedConnection | undefined {
    return this.#current;
  }

  /** Number of nodes to choose from. */
  get nodes(): number {
    return this.#nodes.count;
  }

  /** Returns the connection, or begins a new one. Undefined if there is no node. */
  open(): FeedConnection | undefined {
    if (this.#isClosed || this.#current !== undefined) return this.#current;
    const target = this.#nodes.choose();
    if (target === undefined) return undefined;
    const { clock, limits } = this.#parts;
    const connection = new FeedConnection(target.url, clock, limits, (reason) => {
      if (this.#current === connection) this.lose(reason);
    });
    this.#current = connection;
    this.#target = target;
    return connection;
  }

  /** Gives up the node. Does nothing if there is no connection. */
  lose(reason: string): void {
    const target = this.#target;
    if (target === undefined) return;
    const { log, lostMessage, onLost } = this.#parts;
    log.warn({ node: target.label, reason }, lostMessage);
    this.#nodes.avoid(target);
    this.disconnect();
    onLost();
  }

  disconnect(): void {
    const connection = this.#current;
    this.#current = undefined;
    this.#target = undefined;
    connection?.close();
  }

  /** Disconnects for good. */
  close(): void {
    this.#isClosed = true;
    this.#check[Symbol.dispose]();
    this.disconnect();
  }
}
