/**
 * One kept-alive HTTP/1.1 connection to a node: one request at a time, written at once, its response read into a buffer
 * that the connection keeps (net's `onread`: measured 1.3 µs a request cheaper than `data` events for small answers,
 * 3 µs for 20 KB ones, because nothing is allocated).
 */
import net from "node:net";
import tls from "node:tls";
import type { Job } from "./call.ts";
import { failures, type Failure } from "./failure.ts";
import type { HttpTarget } from "./http-target.ts";
import { ResponseParser } from "./response.ts";

const readBytes = 64 * 1024;
/** A request below this goes out as one string, which Node copies to its stack and writes without an allocation. */
const stringBytes = 8 * 1024;
/** TCP keep-alive finds peers that vanished without a word. */
const tcpKeepAliveMs = 30_000;

/** What a connection tells its client. */
export interface ConnectionOwner {
  readonly answerBytes: number;
  /** Ticks: see `Ticker`. */
  answerDeadline(): number;
  idleDeadline(): number;
  /** It is free for the next job. Called before the job's own answer, so that a new call can use it at once. */
  idle(connection: HttpConnection): void;
  /** A system error code, for the log. */
  noteError(code: string | undefined): void;
  /** It is gone. `resend`: the job that it took to its grave and that may be sent again. */
  gone(connection: HttpConnection, resend: Job | undefined): void;
}

export class HttpConnection {
  readonly #owner: ConnectionOwner;
  readonly #head: string;
  readonly #socket: net.Socket;
  readonly #parser: ResponseParser;
  #job: Job | undefined;
  #connected = false;
  #gone = false;
  /** Responses read so far: a connection that has given one may have been closed by the node since. */
  #responses = 0;
  /** The tick at which the sweep ends it; the owner sets it while idle. */
  deadline: number;

  /** Connects and then sends `job`. */
  constructor(target: HttpTarget, owner: ConnectionOwner, job: Job, connectDeadline: number) {
    this.#owner = owner;
    this.#head = target.head;
    this.#parser = new ResponseParser(owner.answerBytes);
    this.#job = job;
    this.deadline = connectDeadline;
    const socket = connect(target, (size, buffer) => this.#read(size, buffer));
    this.#socket = socket;
    socket.once(target.tls ? "secureConnect" : "connect", () => {
      this.#connected = true;
      const waiting = this.#job;
      if (waiting !== undefined) this.#write(waiting);
    });
    socket.on("end", () => this.#ended());
    socket.on("error", (error: NodeJS.ErrnoException) => {
      if (this.#gone) return;
      owner.noteError(error.code);
      this.drop(this.#connected ? failures.closed : failures.refused);
    });
    socket.on("close", () => this.drop(failures.closed));
  }

  /** Sends a job; only when idle. */
  carry(job: Job): void {
    this.#job = job;
    this.#write(job);
  }

  /** The deadline has passed: says which of the three it was. */
  expire(): void {
    if (!this.#connected) this.drop(failures.connectTimeout);
    else this.drop(this.#parser.started ? failures.idleTimeout : failures.answerTimeout);
  }

  /** Ends the connection, and the job on it with `failure`. Does nothing the second time. */
  drop(failure: Failure): void {
    if (this.#gone) return;
    this.#gone = true;
    this.#socket.destroy();
    const job = this.#job;
    this.#job = undefined;
    // RFC 9112 section 9.3.1: the node may close an idle connection while a request is on its way to it.
    const stale = failure === failures.closed && this.#responses > 0 && !this.#parser.started;
    const resend = stale && job?.retry === true ? job : undefined;
    this.#owner.gone(this, resend);
    if (resend === undefined) job?.fail(failure);
  }

  /** Resolves when the socket has closed. */
  closed(): Promise<void> {
    if (this.#socket.closed) return Promise.resolve();
    return new Promise((resolve) => this.#socket.once("close", () => resolve()));
  }

  #write(job: Job): void {
    this.deadline = this.#owner.answerDeadline();
    const text = job.text();
    const bytes = Buffer.byteLength(text);
    const request = `${this.#head}${bytes}\r\n\r\n${text}`;
    if (bytes < stringBytes) {
      // As many bytes as characters: ASCII, for which latin1 is the same and cheaper to write.
      this.#socket.write(request, bytes === text.length ? "latin1" : "utf8");
    } else {
      this.#socket.write(Buffer.from(request));
    }
  }

  /** Takes what came in; false stops reading. */
  #read(size: number, buffer: Buffer): boolean {
    const job = this.#job;
    if (job === undefined) {
      // Bytes that nobody asked for: no later response on this connection could be trusted.
      this.drop(failures.garbage);
      return false;
    }
    const parser = this.#parser;
    const state = parser.feed(buffer, 0, size);
    if (state === "more") {
      this.deadline = this.#owner.idleDeadline();
      return true;
    }
    if (state === "done") this.#finish(job, parser.head.persistent && parser.next === size);
    else this.drop(state === "garbage" ? failures.garbage : failures.tooLarge);
    return !this.#gone;
  }

  #ended(): void {
    const job = this.#job;
    if (job !== undefined && this.#parser.close() === "done") this.#finish(job, false);
    else this.drop(failures.closed);
  }

  #finish(job: Job, reusable: boolean): void {
    const { bytes, start, end, head } = this.#parser;
    const { status } = head;
    this.#job = undefined;
    this.#responses++;
    // An answer before the whole request was sent (413) leaves the rest of it on the way.
    if (reusable && this.#socket.writableLength === 0) {
      this.#parser.reset();
      this.#owner.idle(this);
    } else {
      this.drop(failures.closed);
    }
    if (status === 429 || status >= 500) job.fail(failures.status);
    else job.respond(status, bytes, start, end);
  }
}

function connect(
  target: HttpTarget,
  onRead: (size: number, buffer: Buffer) => boolean,
): net.Socket {
  const buffer = Buffer.allocUnsafeSlow(readBytes);
  const options = {
    host: target.host,
    port: target.port,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: tcpKeepAliveMs,
    onread: { buffer, callback: (size: number) => onRead(size, buffer) },
  };
  if (!target.tls) return net.connect(options);
  const servername = net.isIP(target.host) === 0 ? target.host : undefined;
  return tls.connect({ ...options, servername, ALPNProtocols: ["http/1.1"] });
}
