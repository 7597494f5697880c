/** One kept-alive HTTP/1.1 connection to a worker's server. */
import net from "node:net";
import tls from "node:tls";
import type { ResponseHead } from "../../../src/http/upstream/http1/response-head.ts";
import {
  ResponseReader,
  type ResponseSink,
} from "../../../src/http/upstream/http1/response-reader.ts";
import type { WorkerServer } from "./worker-server.ts";

/** A request and whoever waits for its answer. Exactly one of `done` and `failed` is called unless it was cut. */
export interface HttpExchange {
  /** Everything of the head but host and length. */
  readonly head: string;
  readonly requestBody: Buffer;
  /** Milliseconds until the head of the answer. */
  readonly firstMs: number;
  /** Told at its start: what it is carried by. */
  carriedBy(connection: WorkerConnection): void;
  answers(head: ResponseHead): void;
  /** A borrowed piece of the body. */
  body(bytes: Buffer, start: number, end: number): void;
  /** All that came in one read has been told. */
  arrived(): void;
  done(): void;
  failed(why: TransportFailure): void;
}

/** `unreachable`: no connection was made. */
export type TransportFailure = "unreachable" | "broken" | "timedOut";

/**
 * Where all connections read into: what is read is used up, or copied, before the event loop reads anything else. A
 * buffer for each would be the larger part of what a stream costs in memory.
 */
const shared = Buffer.allocUnsafeSlow(64 * 1024);

/** TCP keep-alive finds peers that vanished without a word. */
const tcpKeepAliveMs = 30_000;
/** Below this head and body go out in one piece. */
const maxJoinedBytes = 16 * 1024;

export class WorkerConnection implements ResponseSink {
  /** The tick at which the sweep ends it. */
  deadline: number;
  readonly #server: WorkerServer;
  readonly #socket: net.Socket;
  readonly #reader: ResponseReader;
  #exchange: HttpExchange | undefined;
  #connected = false;
  #gone = false;
  #paused = false;
  /** Answers that it has carried: the server may have closed it since. */
  #answers = 0;

  constructor(server: WorkerServer) {
    const { ticker, limits, origin } = server;
    this.#server = server;
    this.deadline = ticker.deadline(limits.connectMs);
    this.#reader = new ResponseReader(this, Number.MAX_SAFE_INTEGER);
    const socket = connect(origin, (size) => this.#contain(() => this.#read(size)) ?? false);
    this.#socket = socket;
    const on = (event: string, run: () => void): void => {
      socket.on(event, () => this.#contain(run));
    };
    on(origin.protocol === "https:" ? "secureConnect" : "connect", () => {
      this.#connected = true;
      if (this.#exchange !== undefined) this.#write(this.#exchange);
    });
    on("end", () => this.#ended());
    on("error", () => this.drop(this.#connected ? "broken" : "unreachable"));
    on("close", () => this.drop("broken"));
  }

  /** Runs what the socket calls: what it throws is the failure of this connection's exchange, never the process's. */
  #contain<T>(run: () => T): T | undefined {
    try {
      return run();
    } catch (error) {
      this.#server.broke(error);
      try {
        this.drop("broken");
      } catch (more) {
        this.#server.broke(more);
      }
      return undefined;
    }
  }

  /** All of the request has been handed to the kernel. */
  get hasSent(): boolean {
    return this.#connected && this.#exchange !== undefined && this.#socket.writableLength === 0;
  }

  /** Sends a request; only when none is under way. */
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
    // A reader that took its time is not the worker's fault.
    this.deadline = this.#server.ticker.deadline(this.#server.limits.idleMs);
    this.#socket.resume();
  }

  /** Nobody waits for the answer any more. */
  cut(): void {
    this.#exchange = undefined;
    this.drop("broken");
  }

  /** The deadline has passed. Called by a timer. */
  expire(): void {
    if (this.#paused) return;
    this.#contain(() => this.drop(this.#connected ? "timedOut" : "unreachable"));
  }

  /** Ends the connection, and the exchange on it with this failure. Does nothing the second time. */
  drop(why: TransportFailure): void {
    if (this.#gone) return;
    this.#gone = true;
    this.#socket.destroy();
    const exchange = this.#exchange;
    this.#exchange = undefined;
    // RFC 9112 section 9.3.1: the server may close an idle connection while a request is on its way to it.
    const stale = why === "broken" && this.#answers > 0 && !this.#reader.started;
    // Before the server may find that nothing is left to carry.
    if (stale && exchange !== undefined) this.#server.send(exchange);
    this.#server.gone(this);
    if (!stale) exchange?.failed(why);
  }

  // What the reader reports.

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

  /** Takes what came in; false stops reading. */
  #read(size: number): boolean {
    const exchange = this.#exchange;
    if (exchange === undefined) {
      // Bytes that nobody asked for: no later answer on this connection could be trusted.
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
    // An answer before the whole request was sent leaves the rest of it on the way.
    if (reusable && this.#socket.writableLength === 0) {
      this.#reader.reset();
      this.resume();
      this.#server.free(this);
    } else this.drop("broken");
    exchange?.done();
  }
}

function connect(origin: URL, onRead: (size: number) => boolean): net.Socket {
  const host = origin.hostname.replace(/^\[(.*)\]$/, "$1");
  const isTls = origin.protocol === "https:";
  const options = {
    host,
    port: origin.port === "" ? (isTls ? 443 : 80) : Number(origin.port),
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: tcpKeepAliveMs,
    onread: { buffer: shared, callback: onRead },
  };
  if (!isTls) return net.connect(options);
  const servername = net.isIP(host) === 0 ? host : undefined;
  return tls.connect({ ...options, servername, ALPNProtocols: ["http/1.1"] });
}
