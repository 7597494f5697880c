/**
 * The server of one or more workers: kept-alive HTTP/1.1 connections with one request at a time on each, as many as
 * there are requests. The client is custom because tokens are small: measured, undici costs 5 µs per token, as much as
 * the kernel takes to read it.
 */
import { startTicker, type Ticker } from "sluice-gateway/http";
import type { Clock, Log } from "sluice-gateway/plugin";
import { WorkerConnection, type HttpExchange } from "./worker-connection.ts";

export interface ServerLimits {
  readonly connectMs: number;
  readonly idleMs: number;
  readonly answerMs: number;
}

export interface ServerParts {
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Time after which an idle connection is closed. It is shorter than the 5 s after which uvicorn, which serves most
 * models, closes it.
 */
const maxIdleMs = 4_000;

export class WorkerServer {
  readonly origin: URL;
  readonly limits: ServerLimits;
  readonly ticker: Ticker;
  /** Idle connections, most recently used last. */
  readonly #idle: WorkerConnection[] = [];
  readonly #busy = new Set<WorkerConnection>();
  #closing: PromiseWithResolvers<void> | undefined;

  readonly #log: Log;

  constructor(origin: string, limits: ServerLimits, { clock, log }: ServerParts) {
    this.origin = new URL(origin);
    this.#log = log;
    this.limits = limits;
    const { connectMs, idleMs, answerMs } = limits;
    this.ticker = startTicker(clock, [connectMs, idleMs, answerMs, maxIdleMs], () => this.#sweep());
  }

  /** Sends a request on an idle connection, or on a new one. */
  send(exchange: HttpExchange): void {
    const kept = this.#idle.pop();
    const connection = kept ?? new WorkerConnection(this);
    this.#busy.add(connection);
    connection.carry(exchange);
  }

  /** Closes the server after its running requests have ended. A closed server gets no more requests. */
  close(): Promise<void> {
    this.#closing ??= Promise.withResolvers();
    for (const connection of this.#idle.splice(0)) connection.drop("broken");
    this.#closeIfDone();
    return this.#closing.promise;
  }

  // Callbacks of connections.

  /** Logs an error thrown in a callback of a socket or timer. It is a bug. */
  broke(error: unknown): void {
    const { origin } = this.origin;
    this.#log.error({ err: error, origin }, "a connection to a worker broke");
  }

  /** Called when the answer has ended and the connection can carry another request. */
  free(connection: WorkerConnection): void {
    this.#busy.delete(connection);
    if (this.#closing !== undefined) return connection.drop("broken");
    connection.deadline = this.ticker.deadline(maxIdleMs);
    this.#idle.push(connection);
  }

  gone(connection: WorkerConnection): void {
    this.#busy.delete(connection);
    const at = this.#idle.indexOf(connection);
    if (at !== -1) this.#idle.splice(at, 1);
    this.#closeIfDone();
  }

  #closeIfDone(): void {
    if (this.#closing === undefined || this.#busy.size > 0) return;
    this.ticker[Symbol.dispose]();
    this.#closing.resolve();
  }

  #sweep(): void {
    const { now } = this.ticker;
    for (const connection of this.#busy) if (connection.deadline <= now) connection.expire();
    // The connections that have been idle longest come first.
    for (let oldest = this.#idle[0]; oldest !== undefined; oldest = this.#idle[0]) {
      if (oldest.deadline > now) break;
      oldest.drop("broken");
    }
  }
}
