/**
 * The WebSocket to the reference node that carries shared subscriptions. It is lost if the node breaks the connection or
 * the protocol, if it does not send the blocks that it has reported to the probes of the pool, or if another node becomes
 * the reference.
 */
import type { NodeHead, NodeTarget } from "../node-pool.ts";
import type { LedgerDeps } from "../pool/pool.ts";
import { FeedConnection, type FeedLimits } from "./feed-connection.ts";

const checkMs = 1_000;
/** A node is lost if it has not sent what it should send for this time. Blocks can take 12 s. */
const lateMs = 20_000;
/** A connection that was open for this time shows that its node works. */
const stableMs = 10_000;
const retryMs = 200;
const maxRetryMs = 5_000;

interface SharedConnectionDeps extends LedgerDeps {
  readonly limits: FeedLimits;
  readonly lostMessage: string;
  readonly onLost: () => void;
  readonly onReference?: () => void;
  /**
   * Called once per second. Returns true if a subscription has received neither this head of the node nor, recently,
   * any other head.
   */
  readonly isMissing: (head: NodeHead) => boolean;
}

export class SharedConnection {
  readonly #deps: SharedConnectionDeps;
  readonly #check: Disposable;
  readonly #listener: Disposable;
  #current: FeedConnection | undefined;
  #target: NodeTarget | undefined;
  #isClosed = false;
  #openedAt = 0;
  /** Time of the monotonic clock since which the node has not sent its own head. */
  #missingSince: number | undefined;
  /** Number of connections that were lost in quick succession. */
  #losses = 0;
  /** Time of the monotonic clock before which no connection should be opened. */
  #notBefore = 0;

  constructor(deps: SharedConnectionDeps) {
    this.#deps = deps;
    this.#listener = deps.pool.reference.onChange(() => this.#onReference());
    this.#check = deps.clock.every(checkMs, () => this.#checkNode());
  }

  get current(): FeedConnection | undefined {
    return this.#current;
  }

  get node(): string | undefined {
    return this.#target?.label;
  }

  /**
   * Time in milliseconds until `open` should be called. It is above 0 if nodes are lost repeatedly: a node that breaks
   * every connection, or a subscription that makes every node break it, must not cause a loop.
   */
  get waitMs(): number {
    return Math.max(0, this.#notBefore - this.#deps.clock.monotonic());
  }

  open(): FeedConnection | undefined {
    if (this.#isClosed || this.#current !== undefined) return this.#current;
    const target = this.#deps.pool.reference.node;
    if (target === undefined) return undefined;
    const { clock, limits } = this.#deps;
    const connection = new FeedConnection(target.url, clock, limits, (reason) => {
      if (this.#current === connection) this.lose(reason);
    });
    this.#current = connection;
    this.#target = target;
    this.#openedAt = clock.monotonic();
    this.#missingSince = undefined;
    return connection;
  }

  /** Closes the connection because of its node, which is then not the reference any more, if there is another one. */
  lose(reason: string): void {
    const target = this.#target;
    if (target === undefined) return;
    const { log, lostMessage, onLost, pool } = this.#deps;
    log.warn({ node: target.label, reason }, lostMessage);
    this.disconnect();
    this.#noteLoss();
    onLost();
    pool.reference.lose(target.label);
    this.#onReference();
  }

  disconnect(): void {
    const connection = this.#current;
    this.#current = undefined;
    this.#target = undefined;
    connection?.close();
  }

  close(): void {
    this.#isClosed = true;
    this.#check[Symbol.dispose]();
    this.#listener[Symbol.dispose]();
    this.disconnect();
  }

  #checkNode(): void {
    const target = this.#target;
    if (target === undefined) return;
    const { clock, isMissing, pool } = this.#deps;
    const now = clock.monotonic();
    const head = pool.reference.node?.head;
    if (head === undefined || !isMissing(head)) this.#missingSince = undefined;
    else this.#missingSince ??= now;
    if (now - (this.#missingSince ?? now) >= lateMs) this.lose("the node sends no heads");
  }

  #onReference(): void {
    const { pool, onReference } = this.#deps;
    const label = pool.reference.node?.label;
    if (this.#target !== undefined && this.#target.label !== label)
      this.lose("the node is not the reference any more");
    else if (this.#target === undefined && label !== undefined) onReference?.();
  }

  #noteLoss(): void {
    const now = this.#deps.clock.monotonic();
    if (now - this.#openedAt >= stableMs) this.#losses = 0;
    this.#losses++;
    // Another node is tried at once.
    const repeated = this.#losses - 1;
    if (repeated > 0) this.#notBefore = now + Math.min(maxRetryMs, retryMs * 2 ** repeated);
  }
}
