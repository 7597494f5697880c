/**
 * The HTTP/1.1 client for nodes, workers and `forward`. It keeps connections alive, sends one request at a time on each,
 * and queues a limited number of exchanges if all connections are busy. It exists because a general client (undici)
 * takes about 10 µs more CPU per request and 5 µs more per token, as much as the kernel takes to read a token.
 */
import type { UpstreamFailure, UpstreamFailureKind } from "../../../contract/upstream-failure.ts";
import { runGuarded } from "../../../guard.ts";
import { WaitLimit, type WaitingAs } from "../../../wait-limit.ts";
import { startTicker, type Ticker } from "../../ticker.ts";
import { addressOf, type BackendAddress } from "../open-socket.ts";
import { Http1Connection, type ConnectionOwner } from "./connection.ts";
import type { Http1Carrier, Http1Options, UpstreamExchange } from "./exchange.ts";

/**
 * Maximum number of exchanges that wait for a connection. More of them would fill the memory if the backend is slow.
 */
const maxWaiting = 1024;

export class Http1Client implements ConnectionOwner {
  readonly options: Http1Options;
  readonly address: BackendAddress;
  readonly #ticker: Ticker;
  readonly #connections = new Set<Http1Connection>();
  /** Last in, first out, so that a few connections stay in use and the others time out. */
  readonly #idle: Http1Connection[] = [];
  readonly #waiting: WaitLimit<WaitingExchange>;
  #isClosed = false;
  /** Set by `drain`. Resolves when no connection is left. */
  #drained: PromiseWithResolvers<void> | undefined;

  constructor(options: Http1Options) {
    const { connectMs, answerMs, idleMs, unusedMs } = options;
    this.options = options;
    this.address = addressOf(options.url);
    const limits = [connectMs, answerMs, idleMs, unusedMs];
    this.#waiting = new WaitLimit(options.clock, connectMs);
    this.#ticker = startTicker(options.clock, limits, () => this.#sweep());
  }

  /** Number of exchanges that were sent or are waiting. */
  get inFlight(): number {
    return this.#connections.size - this.#idle.length + this.#waiting.size;
  }

  /** Number of exchanges that wait for a connection. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** True if at least one connection is open. */
  get isConnected(): boolean {
    return [...this.#connections].some((connection) => connection.isConnected);
  }

  send(exchange: UpstreamExchange): void {
    if (this.#isClosed) return this.#failLater(exchange, "closing");
    const { connections } = this.options;
    // A request that must not be sent twice needs a new connection, because a kept one may be stale.
    const free = exchange.retryPolicy === "never" ? undefined : this.#idle.pop();
    if (free !== undefined) return free.carry(exchange);
    if (this.#connections.size >= connections) this.#idle[0]?.close("closed");
    if (this.#connections.size < connections) return this.#open(exchange);
    if (this.#waiting.size >= maxWaiting) return this.#failLater(exchange, "saturated");
    const waiting = new WaitingExchange(exchange, this.#waiting, this);
    this.#waiting.begin(waiting);
    exchange.onStart(waiting);
  }

  /** Closes every connection; exchanges in flight fail. Resolves when the last socket has closed. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#ticker[Symbol.dispose]();
    const connections = [...this.#connections];
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      this.#fail(next, "closing");
    }
    this.#waiting.close();
    for (const connection of connections) connection.close("closing");
    await Promise.all(connections.map((connection) => connection.closed()));
  }

  /** Lets the exchanges in flight end, and then closes. A draining client gets no new exchanges. */
  async drain(): Promise<void> {
    this.#drained ??= Promise.withResolvers();
    for (const connection of this.#idle.splice(0)) connection.close("closed");
    if (this.#connections.size > 0) await this.#drained.promise;
    await this.close();
  }

  failure(kind: UpstreamFailureKind, timeoutMs?: number, errno?: string): UpstreamFailure {
    return { kind, errno, address: this.options.url.host, timeoutMs };
  }

  // Callbacks of connections.

  deadline(ms: number): number {
    return this.#ticker.deadline(ms);
  }

  onIdle(connection: Http1Connection): void {
    const next = this.#next();
    if (next !== undefined) return connection.carry(next);
    if (this.#drained !== undefined) return connection.close("closed");
    connection.deadline = this.deadline(this.options.unusedMs);
    this.#idle.push(connection);
  }

  onClose(connection: Http1Connection, retried: UpstreamExchange | undefined): void {
    this.#connections.delete(connection);
    const at = this.#idle.indexOf(connection);
    if (at >= 0) this.#idle.splice(at, 1);
    const next = retried ?? this.#next();
    if (next !== undefined) return this.#isClosed ? this.#fail(next, "closing") : this.#open(next);
    if (this.#connections.size === 0) this.#drained?.resolve();
  }

  /** Takes the next exchange from the queue. Undefined if it is empty. */
  #next(): UpstreamExchange | undefined {
    const next = this.#waiting.oldest;
    if (next === undefined) return undefined;
    this.#waiting.end(next);
    return next.exchange;
  }

  #open(exchange: UpstreamExchange): void {
    const connection = new Http1Connection(this);
    this.#connections.add(connection);
    connection.carry(exchange);
  }

  #sweep(): void {
    const { now } = this.#ticker;
    for (const connection of this.#connections) {
      if (connection.deadline <= now) connection.expire();
    }
  }

  /** Fails an exchange asynchronously, because an exchange must not end before `send` has returned. */
  #failLater(exchange: UpstreamExchange, kind: UpstreamFailureKind): void {
    queueMicrotask(() => this.#fail(exchange, kind));
  }

  #fail(exchange: UpstreamExchange, kind: UpstreamFailureKind): void {
    runGuarded(() => exchange.onError(this.failure(kind)), this.options.onBug);
  }
}

/** An exchange in the queue, and its carrier until it has a connection. */
class WaitingExchange implements WaitingAs<WaitingExchange>, Http1Carrier {
  readonly exchange: UpstreamExchange;
  readonly hasSent = false;
  waitingSince = 0;
  previous: WaitingExchange | undefined = undefined;
  next: WaitingExchange | undefined = undefined;
  readonly #queue: WaitLimit<WaitingExchange>;
  readonly #client: Http1Client;

  constructor(exchange: UpstreamExchange, queue: WaitLimit<WaitingExchange>, client: Http1Client) {
    this.exchange = exchange;
    this.#queue = queue;
    this.#client = client;
  }

  expired(): void {
    const { connectMs, onBug } = this.#client.options;
    const failure = this.#client.failure("saturated", connectMs);
    runGuarded(() => this.exchange.onError(failure), onBug);
  }

  pause(): void {}

  resume(): void {}

  abort(): void {
    this.#queue.end(this);
  }
}
