/** One kept-alive HTTP/1.1 connection to a worker's server. */
import type { Socket } from "node:net";
import {
  addressOf,
  openSocket,
  ResponseReader,
  type ResponseHead,
  type ResponseSink,
} from "sluice-gateway/http";
import type { TransportFailure } from "sluice-gateway/services";
import { runGuarded } from "sluice-gateway/toolkit";
import type { WorkerServer } from "./worker-server.ts";

/**
 * A request and the callbacks for its answer. Exactly one of `done` and `failed` is called, unless the exchange was
 * cut.
 */
export interface HttpExchange {
  /** The request head except host and length. */
  readonly head: string;
  readonly requestBody: Buffer;
  /** Maximum time until the head of the answer, in milliseconds. */
  readonly firstMs: number;
  /** Called at the start, with the connection that carries the exchange. */
  carriedBy(connection: WorkerConnection): void;
  answers(head: ResponseHead): void;
  /** Called with a borrowed piece of the body. */
  body(bytes: Buffer, start: number, end: number): void;
  /** Called after all data of one read has been passed on. */
  arrived(): void;
  done(): void;
  failed(why: TransportFailure): void;
}

/**
 * The buffer that all connections read into. Its content is consumed or copied before the event loop reads anything
 * else. A separate buffer per connection would be the larger part of the memory of a stream.
 */
const shared = Buffer.allocUnsafeSlow(64 * 1024);

/** Maximum size of a body that is written together with the head. */
const maxJoinedBytes = 16 * 1024;

export class WorkerConnection implements ResponseSink {
  /** The tick at which the sweep closes the connection. */
  deadline: number;
  readonly #server: WorkerServer;
  readonly #socket: Socket;
  readonly #reader: ResponseReader;
  #exchange: HttpExchange | undefined;
  #connected = false;
  #gone = false;
  #paused = false;
  /** Number of answers on this connection. After the first one, the server may close it at any time. */
  #answers = 0;
  /** The kernel refused to take the request, or the rest of it. */
  #writeFailed = false;

  constructor(server: WorkerServer) {
    const { ticker, limits, origin } = server;
    this.#server = server;
    this.deadline = ticker.deadline(limits.connectMs);
    this.#reader = new ResponseReader(this, Number.MAX_SAFE_INTEGER);
    const socket = openSocket(
      addressOf(origin),
      shared,
      (size) => this.#contain(() => this.#read(size)) ?? false,
    );
    this.#socket = socket;
    const on = (event: string, run: () => void): void => {
      socket.on(event, () => this.#contain(run));
    };
    on(origin.protocol === "https:" ? "secureConnect" : "connect", () => {
      this.#connected = true;
      if (this.#exchange !== undefined) this.#write(this.#exchange);
    });
    on("end", () => this.#ended());
    socket.on("error", (error: NodeJS.ErrnoException) => {
      this.#writeFailed = error.syscall === "write";
      this.#contain(() => this.drop(this.#connected ? "broken" : "unreachable"));
    });
    on("close", () => this.drop("broken"));
  }

  /** Runs a callback of the socket. An error in it fails the exchange of this connection, not the process. */
  #contain<T>(run: () => T): T | undefined {
    return runGuarded(run, (error) => {
      this.#server.broke(error);
      this.drop("broken");
    });
  }

  /** True once the kernel has accepted the whole request. */
  get hasSent(): boolean {
    return this.#connected && this.#exchange !== undefined && this.#socket.writableLength === 0;
  }

  /** Sends a request. Call it only when the connection is idle. */
  carry(exchange: HttpExchange): void {
    this.#exchange = exchange;
    exchange.carriedBy(this);
    if (this.#connected) this.#write(exchange);
  }

  pause(): void {
    this.#paused = true;
    this.#socket.pause();
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    // The time during which the reader paused is not the worker's fault.
    this.deadline = this.#server.ticker.deadline(this.#server.limits.idleMs);
    this.#socket.resume();
  }

  /** Closes the connection because the answer is not needed any more. */
  cut(): void {
    this.#exchange = undefined;
    this.drop("broken");
  }

  /** Called by a timer when the deadline has passed. */
  expire(): void {
    if (this.#paused) return;
    this.#contain(() => this.drop(this.#connected ? "timedOut" : "unreachable"));
  }

  /** Closes the connection and fails its exchange with `why`. Later calls do nothing. */
  drop(why: TransportFailure): void {
    if (this.#gone) return;
    this.#gone = true;
    const isUnread = why === "broken" && this.#isUnread;
    this.#socket.destroy();
    const exchange = this.#exchange;
    this.#exchange = undefined;
    // This comes before `gone`, after which the server may close because it has no exchange left.
    if (isUnread && exchange !== undefined) this.#server.send(exchange);
    this.#server.gone(this);
    if (!isUnread) exchange?.failed(why);
  }

  /**
   * Whether the server closed a kept connection before it could read the whole request. Only then is the request sent
   * again on another connection: a POST is repeated only if it was certainly not processed (RFC 9110 section 9.2.2), and
   * a completion that is computed twice costs the worker twice. If all of the request was handed to the kernel, the
   * server may have read it, so the exchange fails.
   */
  get #isUnread(): boolean {
    const isUnsent = this.#writeFailed || this.#socket.writableLength > 0;
    return this.#answers > 0 && isUnsent && !this.#reader.started;
  }

  // Callbacks of the response reader.

  headEnds(): void {
    this.#exchange?.answers(this.#reader.head);
  }

  body(bytes: Buffer, start: number, end: number): void {
    this.#exchange?.body(bytes, start, end);
  }

  #write(exchange: HttpExchange): void {
    const { head, requestBody, firstMs } = exchange;
    this.deadline = this.#server.ticker.deadline(firstMs);
    const lines = `${head}Host: ${this.#server.origin.host}\r\nContent-Length: ${requestBody.length}\r\n\r\n`;
    // Field values are Latin-1.
    const bytes = Buffer.from(lines, "latin1");
    if (requestBody.length <= maxJoinedBytes) {
      this.#socket.write(Buffer.concat([bytes, requestBody]));
      return;
    }
    this.#socket.cork();
    this.#socket.write(bytes);
    this.#socket.write(requestBody);
    this.#socket.uncork();
  }

  /** Reads the data that has arrived. Returns false to stop reading. */
  #read(size: number): boolean {
    const exchange = this.#exchange;
    if (exchange === undefined) {
      // Unrequested bytes: no later answer on this connection could be trusted.
      this.drop("broken");
      return false;
    }
    const state = this.#reader.feed(shared, 0, size);
    if (this.#gone) return false;
    exchange.arrived();
    if (this.#gone) return false;
    if (state === "more") this.deadline = this.#server.ticker.deadline(this.#server.limits.idleMs);
    else if (state === "done")
      this.#finish(this.#reader.head.persistent && this.#reader.next === size);
    else this.drop("broken");
    return !this.#gone && !this.#paused;
  }

  #ended(): void {
    if (this.#exchange !== undefined && this.#reader.close() === "done") this.#finish(false);
    else this.drop("broken");
  }

  #finish(reusable: boolean): void {
    const exchange = this.#exchange;
    this.#exchange = undefined;
    this.#answers++;
    // If the answer came before the whole request was sent, the rest of the request is still being sent.
    if (reusable && this.#socket.writableLength === 0) {
      this.#reader.reset();
      this.resume();
      this.#server.free(this);
    } else this.drop("broken");
    exchange?.done();
  }
}
