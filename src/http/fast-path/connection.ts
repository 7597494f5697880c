import type { Socket } from "node:net";
import type { ClientRequest } from "../../message/request-head.ts";
import { answerBadRequest } from "../bad-request.ts";
import { HeadReader } from "./head-reader.ts";
import { FastResponse, type ResponseConnection } from "./response.ts";

export interface ConnectionDeps {
  readonly keepAliveSeconds: number;
  /** Monotonic time in milliseconds, read once per sweep. */
  readonly now: number;
  serve(req: ClientRequest, res: FastResponse, body: Buffer): void;
  /** Hands the connection over to node:http permanently. */
  handOver(socket: Socket): void;
  onClose(connection: FastConnection): void;
}

/** Longer requests are left to node:http, because they may have to be refused or streamed before they are complete. */
const maxWaitingBytes = 64 * 1024;
/** Each piece is appended to the waiting ones by a copy. After this number, further bytes wait in the kernel. */
const maxWaitingPieces = 64;
/** Many clients write head and body separately. A request in more pieces is handed over to node:http. */
const maxRequestPieces = 4;
const noBytes = Buffer.alloc(0);

export class FastConnection implements ResponseConnection {
  readonly socket: Socket;
  readonly keepAliveSeconds: number;
  /** Monotonic time in milliseconds at which the last answer ended or the connection was opened. */
  idleSince: number;
  isUsed = false;
  readonly #shared: ConnectionDeps;
  #response: FastResponse | undefined = undefined;
  /** During an answer, the requests that arrived meanwhile. Otherwise the incomplete next request. */
  #waiting: Buffer = noBytes;
  #pieces = 0;
  /** The request was already incomplete at the previous sweep. */
  #isLate = false;
  readonly #heads: HeadReader;

  constructor(socket: Socket, shared: ConnectionDeps) {
    this.socket = socket;
    this.#shared = shared;
    this.#heads = new HeadReader(socket);
    this.keepAliveSeconds = shared.keepAliveSeconds;
    this.idleSince = shared.now;
    socket.on("data", this.#onData);
    socket.on("end", this.#onEnd);
    socket.on("drain", this.#onDrain);
    socket.on("error", this.#onError);
    socket.on("close", this.#onClose);
  }

  get isIdle(): boolean {
    return this.#response === undefined && this.#waiting.length === 0;
  }

  /** Hands over a request that was incomplete at the previous sweep, because node:http enforces the deadlines. */
  handOverLate(): void {
    const isPartial = this.#response === undefined && this.#waiting.length > 0;
    if (isPartial && this.#isLate) return this.#handOver(this.#waiting);
    this.#isLate = isPartial;
  }

  readonly flushed = (error?: Error | null): void => {
    const response = this.#response;
    // After an error, the `close` event ends the exchange.
    if (response === undefined || (error !== undefined && error !== null)) return;
    this.#response = undefined;
    this.idleSince = this.#shared.now;
    response.onClose(true);
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
    if (all.length > maxWaitingBytes || this.#pieces > maxWaitingPieces) this.socket.pause();
  };

  /** Closes the connection when the client ends its side, as node:http does. An incomplete request is refused first. */
  readonly #onEnd = (): void => {
    const { socket } = this;
    this.#response?.onHalfClose?.();
    if (this.#response !== undefined || isBlank(this.#waiting)) socket.end();
    else answerBadRequest(new Error("the request ends too early"), socket);
  };

  readonly #onDrain = (): void => {
    this.#response?.onDrain?.drained();
  };

  readonly #onError = (): void => {
    this.socket.destroy();
  };

  readonly #onClose = (): void => {
    const response = this.#response;
    this.#response = undefined;
    this.#shared.onClose(this);
    response?.onClose(false);
  };

  #take(bytes: Buffer): void {
    // Requests after the last answer of a connection are not served (RFC 9112 section 9.6).
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

  /** Keeps an incomplete request until more of it arrives. `least`: its minimum size in bytes. */
  #wait(bytes: Buffer, least: number): void {
    this.#pieces++;
    if (least > maxWaitingBytes || this.#pieces >= maxRequestPieces) return this.#handOver(bytes);
    this.#waiting = bytes;
  }

  #handOver(bytes: Buffer): void {
    const { socket } = this;
    socket.off("data", this.#onData);
    socket.off("end", this.#onEnd);
    socket.off("drain", this.#onDrain);
    socket.off("error", this.#onError);
    socket.off("close", this.#onClose);
    this.#shared.onClose(this);
    socket.pause();
    socket.unshift(bytes);
    this.#shared.handOver(socket);
    socket.resume();
  }
}

/** Returns true if the bytes contain no request. Empty lines before a request are ignored (RFC 9112 section 2.2). */
function isBlank(bytes: Buffer): boolean {
  return bytes.every((byte) => byte === 0x0d || byte === 0x0a);
}
