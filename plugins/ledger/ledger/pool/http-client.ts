/**
 * An HTTP client with one purpose: JSON-RPC POSTs to one node. It keeps connections alive, sends one request at a time
 * on each, and lets a bounded number of calls wait when all are busy. About 10 µs of CPU a request cheaper than a
 * general client (undici), which is why it exists.
 *
 * A call cannot be taken back: the node works on it until it has answered, and a connection that were cut to forget it
 * would let callers who leave put more work on the node than it has connections.
 */
import type { Clock } from "../../../../src/services/clock.ts";
import type { Call, Job, NodeClient } from "./call.ts";
import { failures } from "./failure.ts";
import { HttpConnection, type ConnectionOwner } from "./http-connection.ts";
import { httpTarget, type HttpTarget } from "./http-target.ts";
import { startTicker, type Ticker } from "../../../../src/http/ticker.ts";

export interface ClientOptions {
  readonly url: URL;
  /** The most connections at a time. */
  readonly connections: number;
  readonly connectMs: number;
  readonly headersMs: number;
  readonly idleMs: number;
  readonly answerBytes: number;
  readonly clock: Clock;
}

/** Calls that may wait for a connection; more are refused, so that a slow node cannot fill the memory. */
const waitingJobs = 1024;
/** An unused connection is closed after this. */
const unusedMs = 60_000;

export class HttpClient implements NodeClient, ConnectionOwner {
  readonly answerBytes: number;
  readonly #options: ClientOptions;
  readonly #target: HttpTarget;
  readonly #ticker: Ticker;
  readonly #connections = new Set<HttpConnection>();
  /** Last in, first out: the few that are used stay warm, the others grow old and are closed. */
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

  send(call: Call): void {
    this.number(call);
    this.sendJob(call);
  }

  /** Gives a call its id. Kept within 31 bits, which V8 holds without an allocation. */
  number(call: Call): void {
    this.#nextId = (this.#nextId + 1) & 0x3fff_ffff;
    call.id = this.#nextId;
  }

  sendJob(job: Job): void {
    if (this.#closed) return failLater(job, "closing");
    // What must not be sent twice goes out on a new connection: only a used one can be stale.
    const free = job.retry ? this.#idle.pop() : undefined;
    if (free !== undefined) return free.carry(job);
    if (this.#connections.size >= this.#options.connections) this.#idle[0]?.drop(failures.closed);
    if (this.#connections.size < this.#options.connections) return this.#open(job);
    if (this.#waiting.length >= waitingJobs) return failLater(job, "saturated");
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

  idle(connection: HttpConnection): void {
    const job = this.#waiting.shift();
    if (job !== undefined) return connection.carry(job);
    connection.deadline = this.#ticker.deadline(unusedMs);
    this.#idle.push(connection);
  }

  noteError(code: string | undefined): void {
    this.lastError = code;
  }

  gone(connection: HttpConnection, resend: Job | undefined): void {
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
    // Deadlines of waiting jobs are in the order in which they came.
    let late = 0;
    for (const job of this.#waiting) {
      if (job.deadline > now) break;
      late++;
    }
    for (const job of this.#waiting.splice(0, late)) job.fail(failures.saturated);
  }
}

/** A job never ends before `send` has returned. */
function failLater(job: Job, why: "closing" | "saturated"): void {
  queueMicrotask(() => job.fail(failures[why]));
}
