/**
 * A specialized HTTP client for JSON-RPC POST requests to one node. It keeps connections alive, sends one request at a
 * time on each, and queues a limited number of calls if all connections are busy. It exists because it takes about 10
 * µs less CPU per request than a general client (undici).
 *
 * A call cannot be cancelled, because the node works on it until it has answered. If the client closed the connection
 * instead, callers who leave could put more work on the node than it has connections.
 */
import { startTicker, type Ticker } from "sluice-gateway/http";
import type { Clock } from "sluice-gateway/plugin";
import type { NodeCall, Job, NodeClient } from "./node-call.ts";
import { failures } from "./failure.ts";
import { HttpConnection, type ConnectionOwner } from "./http-connection.ts";
import { httpTarget, type HttpTarget } from "./http-target.ts";

export interface ClientOptions {
  readonly url: URL;
  /** Maximum number of concurrent connections. */
  readonly connections: number;
  readonly connectMs: number;
  readonly headersMs: number;
  readonly idleMs: number;
  readonly answerBytes: number;
  readonly clock: Clock;
}

/** Maximum number of calls that wait for a connection. More are refused, so that a slow node cannot fill the memory. */
const maxWaitingJobs = 1024;
/** An idle connection is closed after this time. */
const unusedMs = 60_000;

export class HttpClient implements NodeClient, ConnectionOwner {
  readonly answerBytes: number;
  readonly #options: ClientOptions;
  readonly #target: HttpTarget;
  readonly #ticker: Ticker;
  readonly #connections = new Set<HttpConnection>();
  /** Last in, first out, so that a few connections stay in use and the others time out. */
  readonly #idle: HttpConnection[] = [];
  readonly #waiting: Job[] = [];
  #closed = false;
  #nextId = 0;
  lastError: string | undefined;

  constructor(options: ClientOptions) {
    this.answerBytes = options.answerBytes;
    this.#options = options;
    this.#target = httpTarget(options.url);
    const limits = [options.connectMs, options.headersMs, options.idleMs];
    this.#ticker = startTicker(options.clock, limits, () => this.#sweep());
  }

  get inFlight(): number {
    return this.#connections.size - this.#idle.length + this.#waiting.length;
  }

  send(call: NodeCall): void {
    this.number(call);
    this.sendJob(call);
  }

  /** Assigns an id to a call. Ids are limited to 30 bits, which V8 stores without an allocation. */
  number(call: NodeCall): void {
    this.#nextId = (this.#nextId + 1) & 0x3fff_ffff;
    call.id = this.#nextId;
  }

  sendJob(job: Job): void {
    if (this.#closed) return failLater(job, "closing");
    // A request that must not be sent twice needs a new connection, because a used one may be stale.
    const free = job.retry ? this.#idle.pop() : undefined;
    if (free !== undefined) return free.carry(job);
    if (this.#connections.size >= this.#options.connections) this.#idle[0]?.drop(failures.closed);
    if (this.#connections.size < this.#options.connections) return this.#open(job);
    if (this.#waiting.length >= maxWaitingJobs) return failLater(job, "saturated");
    job.deadline = this.#ticker.deadline(this.#options.connectMs);
    this.#waiting.push(job);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#ticker[Symbol.dispose]();
    const connections = [...this.#connections];
    const waiting = this.#waiting.splice(0);
    for (const connection of connections) connection.drop(failures.closing);
    for (const job of waiting) job.fail(failures.closing);
    await Promise.all(connections.map((connection) => connection.closed()));
  }

  answerDeadline(): number {
    return this.#ticker.deadline(this.#options.headersMs);
  }

  idleDeadline(): number {
    return this.#ticker.deadline(this.#options.idleMs);
  }

  onIdle(connection: HttpConnection): void {
    const job = this.#waiting.shift();
    if (job !== undefined) return connection.carry(job);
    connection.deadline = this.#ticker.deadline(unusedMs);
    this.#idle.push(connection);
  }

  onError(code: string | undefined): void {
    this.lastError = code;
  }

  onClosed(connection: HttpConnection, resend: Job | undefined): void {
    this.#connections.delete(connection);
    const at = this.#idle.indexOf(connection);
    if (at >= 0) this.#idle.splice(at, 1);
    if (this.#closed) return resend?.fail(failures.closing);
    const next = resend ?? this.#waiting.shift();
    if (next !== undefined) this.#open(next);
  }

  #open(job: Job): void {
    const deadline = this.#ticker.deadline(this.#options.connectMs);
    this.#connections.add(new HttpConnection(this.#target, this, job, deadline));
  }

  #sweep(): void {
    const { now } = this.#ticker;
    for (const connection of this.#connections) {
      if (connection.deadline <= now) connection.expire();
    }
    // Waiting jobs are in the order of their deadlines.
    let late = 0;
    for (const job of this.#waiting) {
      if (job.deadline > now) break;
      late++;
    }
    for (const job of this.#waiting.splice(0, late)) job.fail(failures.saturated);
  }
}

/** Fails a job asynchronously, because a job must not end before `send` has returned. */
function failLater(job: Job, why: "closing" | "saturated"): void {
  queueMicrotask(() => job.fail(failures[why]));
}
