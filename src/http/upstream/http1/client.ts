/**
 * The HTTP/1.1 client for nodes and workers. It keeps connections alive, sends one request at a time on each, and queues
 * a limited number of exchanges if all connections are busy. It exists because a general client (undici) takes about 10
 * µs more CPU per request and 5 µs more per token, as much as the kernel takes to read a token.
 */
import { runGuarded } from "../../../guard.ts";
import { startTicker, type Ticker } from "../../ticker.ts";
import { addressOf, type BackendAddress } from "../open-socket.ts";
import type { UpstreamClient, UpstreamFailure } from "../upstream-client.ts";
import { Http1Connection, type ConnectionOwner } from "./connection.ts";
import type { Http1Options, UpstreamExchange } from "./exchange.ts";

/**
 * Maximum number of exchanges that wait for a connection. More of them would fill the memory if the backend is slow.
 */
const maxWaiting = 1024;

interface WaitingExchange {
  readonly exchange: UpstreamExchange;
  readonly deadline: number;
}

export class Http1Client implements UpstreamClient<UpstreamExchange>, ConnectionOwner {
  readonly options: Http1Options;
  readonly address: BackendAddress;
  readonly #ticker: Ticker;
  readonly #connections = new Set<Http1Connection>();
  /** Last in, first out, so that a few connections stay in use and the others time out. */
  readonly #idle: Http1Connection[] = [];
  /** In the order of their deadlines. */
  readonly #waiting: WaitingExchange[] = [];
  #isClosed = false;
  /** Set by `drain`. Resolves when no connection is left. */
  #drained: PromiseWithResolvers<void> | undefined;
  /** System error code of the last failed connection, such as `ECONNREFUSED`, for the log. */
  lastError: string | undefined;

  constructor(options: Http1Options) {
    const { connectMs, answerMs, idleMs, unusedMs } = options;
    this.options = options;
    this.address = addressOf(options.url);
    const limits = [connectMs, answerMs, idleMs, unusedMs];
    this.#ticker = startTicker(options.clock, limits, () => this.#sweep());
  }

  /** Number of exchanges that were sent or are waiting. */
  get inFlight(): number {
    return this.#connections.size - this.#idle.length + this.#waiting.length;
  }

  send(exchange: UpstreamExchange): void {
    if (this.#isClosed) return this.#failLater(exchange, "closing");
    const { connections, connectMs } = this.options;
    // A request that must not be sent twice needs a new connection, because a kept one may be stale.
    const free = exchange.repeat === "never" ? undefined : this.#idle.pop();
    if (free !== undefined) return free.carry(exchange);
    if (this.#connections.size >= connections) this.#idle[0]?.close("closed");
    if (this.#connections.size < connections) return this.#open(exchange);
    if (this.#waiting.length >= maxWaiting) return this.#failLater(exchange, "saturated");
    this.#waiting.push({ exchange, deadline: this.deadline(connectMs) });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#ticker[Symbol.dispose]();
    const connections = [...this.#connections];
    for (const { exchange } of this.#waiting.splice(0)) this.#fail(exchange, "closing");
    for (const connection of connections) connection.close("closing");
    await Promise.all(connections.map((connection) => connection.closed()));
  }

  async drain(): Promise<void> {
    this.#drained ??= Promise.withResolvers();
    for (const connection of this.#idle.splice(0)) connection.close("closed");
    if (this.#connections.size > 0) await this.#drained.promise;
    await this.close();
  }

  // Callbacks of connections.

  deadline(ms: number): number {
    return this.#ticker.deadline(ms);
  }

  onIdle(connection: Http1Connection): void {
    const next = this.#waiting.shift();
    if (next !== undefined) return connection.carry(next.exchange);
    if (this.#drained !== undefined) return connection.close("closed");
    connection.deadline = this.deadline(this.options.unusedMs);
    this.#idle.push(connection);
  }

  onSocketError(code: string | undefined): void {
    this.lastError = code;
  }

  onClose(connection: Http1Connection, repeated: UpstreamExchange | undefined): void {
    this.#connections.delete(connection);
    const at = this.#idle.indexOf(connection);
    if (at >= 0) this.#idle.splice(at, 1);
    const next = repeated ?? this.#waiting.shift()?.exchange;
    if (next !== undefined) return this.#isClosed ? this.#fail(next, "closing") : this.#open(next);
    if (this.#connections.size === 0) this.#drained?.resolve();
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
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (next.deadline > now) return;
      this.#waiting.shift();
      this.#fail(next.exchange, "saturated");
    }
  }

  /** Fails an exchange asynchronously, because an exchange must not end before `send` has returned. */
  #failLater(exchange: UpstreamExchange, failure: UpstreamFailure): void {
    queueMicrotask(() => this.#fail(exchange, failure));
  }

  #fail(exchange: UpstreamExchange, failure: UpstreamFailure): void {
    runGuarded(() => exchange.onError(failure), this.options.onBug);
  }
}
