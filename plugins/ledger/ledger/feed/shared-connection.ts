/**
 * The WebSocket that carries the shared subscriptions of a pool: at most one at a time, to the best node. It is lost if its
 * node breaks the connection or the protocol, if the pool no longer uses that node but another one, if the node does not
 * send the blocks that it has reported to the probes of the pool, or if it finalizes nothing although clients wait for a
 * block that another node has finalized.
 */
import type { Clock, Log } from "sluice-gateway/plugin";
import type { NodeHead, NodePool, NodeTarget } from "../node-pool.ts";
import { FeedConnection, type FeedLimits } from "./feed-connection.ts";
import { TargetChoice } from "./target-choice.ts";

const checkMs = 1_000;
/** A node is lost if it has not sent what it should send for this time. Blocks can take 12 s. */
const lateMs = 20_000;
/** A node that finalizes blocks may be this number of blocks behind what clients wait for. */
const maxBehind = 64;
/** A connection that was open for this time shows that its node works. */
const stableMs = 10_000;
const retryMs = 200;
const maxRetryMs = 5_000;

export interface SharedConnectionParts {
  readonly pool: Pick<NodePool, "targets">;
  readonly clock: Clock;
  readonly log: Log;
  readonly limits: FeedLimits;
  /** The message for the log when the node is lost. */
  readonly lostMessage: string;
  /**
   * Called when the node is lost and the connection is closed. The next `open` chooses another node if there is one.
   */
  readonly onLost: (reason: string) => void;
  /**
   * Called once per second. Returns true if a subscription has received neither this head of the node nor, recently,
   * any other head.
   */
  readonly isMissing: (head: NodeHead) => boolean;
  /** Returns the lowest finalized block number that a client waits for. Undefined if none waits. */
  readonly awaited: () => number | undefined;
}

export class SharedConnection {
  readonly #parts: SharedConnectionParts;
  readonly #nodes: TargetChoice;
  readonly #check: Disposable;
  #current: FeedConnection | undefined;
  #target: NodeTarget | undefined;
  #isClosed = false;
  #openedAt = 0;
  /** Time of the monotonic clock since which the node has not sent its own head. */
  #missingSince: number | undefined;
  /** Time since which clients have waited for a finalized block that a usable node has. */
  #awaitedSince: number | undefined;
  /** Number of the highest block that the node has finalized. */
  #finalized = -1;
  /** Number of nodes that were lost in quick succession. */
  #losses = 0;
  /** Time of the monotonic clock before which no connection should be opened. */
  #notBefore = 0;

  constructor(parts: SharedConnectionParts) {
    this.#parts = parts;
    this.#nodes = new TargetChoice(parts.pool, parts.clock);
    this.#check = parts.clock.every(checkMs, () => this.#checkNode());
  }

  get current(): FeedConnection | undefined {
    return this.#current;
  }

  /** Label of the node to which there is a connection. */
  get node(): string | undefined {
    return this.#target?.label;
  }

  /** Number of nodes to choose from. */
  get nodes(): number {
    return this.#nodes.count;
  }

  /**
   * Time in milliseconds until `open` should be called. It is above 0 if nodes are lost repeatedly: a node that breaks
   * every connection, or a subscription that makes every node break it, must not cause a loop.
   */
  get waitMs(): number {
    return Math.max(0, this.#notBefore - this.#parts.clock.monotonic());
  }

  /** Returns the connection, or opens a new one. Undefined if there is no node. */
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
    this.#openedAt = clock.monotonic();
    this.#missingSince = undefined;
    this.#awaitedSince = undefined;
    this.#finalized = -1;
    return connection;
  }

  /** Closes the connection because of its node. Does nothing if there is no connection. */
  lose(reason: string): void {
    const target = this.#target;
    if (target === undefined) return;
    const { log, lostMessage, onLost } = this.#parts;
    log.warn({ node: target.label, reason }, lostMessage);
    this.#nodes.avoid(target);
    this.disconnect();
    this.#noteLoss();
    onLost(reason);
  }

  /** Called when the node has announced its finalized block. A node that finalizes new blocks may lag a little. */
  finalized(number: number): void {
    if (number <= this.#finalized) return;
    this.#finalized = number;
    if (number + maxBehind >= (this.#parts.awaited() ?? 0)) this.#awaitedSince = undefined;
  }

  disconnect(): void {
    const connection = this.#current;
    this.#current = undefined;
    this.#target = undefined;
    connection?.close();
  }

  /** Closes the connection. `open` does not open a new one after this. */
  close(): void {
    this.#isClosed = true;
    this.#check[Symbol.dispose]();
    this.disconnect();
  }

  #checkNode(): void {
    const target = this.#target;
    if (target === undefined) return;
    if (this.#nodes.isUnusable(target)) return this.lose("the node is not usable");
    const { clock, isMissing, awaited } = this.#parts;
    const now = clock.monotonic();
    const head = this.#nodes.headOf(target);
    if (head === undefined || !isMissing(head)) this.#missingSince = undefined;
    else this.#missingSince ??= now;
    const number = awaited();
    if (number === undefined || !this.#nodes.hasFinalized(number)) this.#awaitedSince = undefined;
    else this.#awaitedSince ??= now;
    const isLate = (since = now): boolean => now - since >= lateMs;
    if (isLate(this.#missingSince)) this.lose("the node sends no heads");
    else if (isLate(this.#awaitedSince)) this.lose("the node finalizes no blocks");
  }

  #noteLoss(): void {
    const now = this.#parts.clock.monotonic();
    if (now - this.#openedAt >= stableMs) this.#losses = 0;
    this.#losses++;
    // The other nodes are tried at once.
    const repeated = this.#losses - Math.max(1, this.nodes - 1);
    if (repeated > 0) this.#notBefore = now + Math.min(maxRetryMs, retryMs * 2 ** repeated);
  }
}
