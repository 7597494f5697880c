/** A connection on the fast path: one ordinary request after the other, until one comes that is not. */
import type { Socket } from "node:net";
import type { ClientRequest } from "../../pipeline/run/arrival.ts";
import { answerBadRequest } from "../bad-request.ts";
import { HeadReader } from "./head-reader.ts";
import { FastResponse, type AnswerPath } from "./response.ts";

/** What connections have in common. */
export interface Shared {
  readonly keepAliveSeconds: number;
  /** Milliseconds, monotonic, read once a sweep. */
  readonly now: number;
  serve(req: ClientRequest, res: FastResponse, body: Buffer): void;
  /** Everything about this connection is node:http's from here on. */
  handOver(socket: Socket): void;
  closed(connection: FastConnection): void;
}

/** A longer request is node:http's: it may have to be refused, or passed on, before it is here. */
const waitingBytesMax = 64 * 1024;
/** Each piece is copied behind those that wait: what comes in more than these waits in the kernel. */
const waitingPiecesMax = 64;
/** Many clients write head and body apart. What comes in more pieces than this is node:http's. */
const piecesMax = 4;
const noBytes = Buffer.alloc(0);

export class FastConnection implements AnswerPath {
  readonly socket: Socket;
  readonly keepAliveSeconds: number;
  /** When its last answer ended, or it began; milliseconds, monotonic. */
  idleSince: number;
  /** It has had a request. */
  isUsed = false;
  readonly #shared: Shared;
  /** What is being answered. */
  #response: FastResponse | undefined = undefined;
  /** While answering: the requests that came meanwhile. Else: the next request, as far as it has come. */
  #waiting: Buffer = noBytes;
  /** In how many reads `#waiting` has come so far. */
  #pieces = 0;
  /** It was there, and not whole, at the last sweep. */
  #isLate = false;
  readonly #heads: HeadReader;

  constructor(socket: Socket, shared: Shared) {
    this.socket = socket;
    this.#shared = shared;
    this.#heads = new HeadReader(socket);
    this.keepAliveSeconds = shared.keepAliveSeconds;
    this.idleSince = shared.now;
    socket.on("data", this.#onData);
    socket.on("end", this.#onEnd);
    socket.on("drain", this.#onDrain);
    socket.on("timeout", this.#onTimeout);
    socket.on("error", this.#onError);
    socket.on("close", this.#onClose);
  }

  get isIdle(): boolean {
    return this.#response === undefined && this.#waiting.length === 0;
  }

  /** Gives up waiting for the rest of a request that came before the last sweep: node:http has the deadlines. */
  passOnLate(): void {
    const isPartial = this.#response === undefined && this.#waiting.length > 0;
    if (isPartial && this.#isLate) return this.#handOver(this.#waiting);
    this.#isLate = isPartial;
  }

  readonly flushed = (error?: Error | null): void => {
    const response = this.#response;
    // After an error, `close` tells the end.
    if (response === undefined || (error !== undefined && error !== null)) return;
    this.#response = undefined;
    this.idleSince = this.#shared.now;
    if (this.socket.timeout) this.socket.setTimeout(0);
    response.over(true);
    if (!response.shouldKeepAlive) return this.socket.destroySoon();
    this.#pieces = 0;
    if (this.#waiting.length === 0) return;
    if (this.socket.isPaused()) this.socket.resume();
    this.#take(this.#waiting);
  };

  readonly #onData = (bytes: Buffer): void => {
    const all = this.#waiting.length === 0 ? bytes : Buffer.concat([this.#waiting, bytes]);
    if (this.#response === undefined) return this.#take(all);
    this.#waiting = all;
    this.#pieces++;
    if (all.length > waitingBytesMax || this.#pieces > waitingPiecesMax) this.socket.pause();
  };

  /** As node:http does: the connection ends with the client's side of it. A request that is cut is refused first. */
  readonly #onEnd = (): void => {
    const { socket } = this;
    if (this.#response !== undefined || isBlank(this.#waiting)) socket.end();
    else answerBadRequest(new Error("the request ends too early"), socket);
  };

  readonly #onDrain = (): void => {
    this.#response?.onDrain?.();
  };

  readonly #onTimeout = (): void => {
    this.#response?.exchange?.cutOff("timedOut");
  };

  readonly #onError = (): void => {
    this.socket.destroy();
  };

  readonly #onClose = (): void => {
    const response = this.#response;
    this.#response = undefined;
    this.#shared.closed(this);
    response?.over(false);
  };

  /** Serves the request that `bytes` begin with, if it is an ordinary one, as soon as it is whole. */
  #take(bytes: Buffer): void {
    // What comes behind the last answer of a connection is not served (RFC 9112 section 9.6).
    if (!this.socket.writable) return;
    const head = this.#heads.read(bytes);
    if (head === undefined) return this.#handOver(bytes);
    if (head === "incomplete") return this.#wait(bytes, bytes.length);
    const { bodyStart } = this.#heads;
    const end = bodyStart + head.bodyBytes;
    if (end > bytes.length) return this.#wait(bytes, end);
    this.#waiting = end < bytes.length ? bytes.subarray(end) : noBytes;
    this.#isLate = false;
    const response = new FastResponse(this, head.keepsAlive);
    this.#response = response;
    this.isUsed = true;
    this.#shared.serve(head, response, bytes.subarray(bodyStart, end));
  }

  /** Keeps what there is of a request that has at least `least` bytes until more of it has come. */
  #wait(bytes: Buffer, least: number): void {
    this.#pieces++;
    if (least > waitingBytesMax || this.#pieces >= piecesMax) return this.#handOver(bytes);
    this.#waiting = bytes;
  }

  #handOver(bytes: Buffer): void {
    const { socket } = this;
    socket.off("data", this.#onData);
    socket.off("end", this.#onEnd);
    socket.off("drain", this.#onDrain);
    socket.off("timeout", this.#onTimeout);
    socket.off("error", this.#onError);
    socket.off("close", this.#onClose);
    this.#shared.closed(this);
    socket.pause();
    socket.unshift(bytes);
    this.#shared.handOver(socket);
    socket.resume();
  }
}

/** Whether there is no request in these bytes: empty lines before one are ignored (RFC 9112 section 2.2). */
function isBlank(bytes: Buffer): boolean {
  return bytes.every((byte) => byte === 0x0d || byte === 0x0a);
}
