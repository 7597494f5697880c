/** The client's end of an exchange, as the pipeline writes to it, and node:http's response as one. */
import { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { writeChunk, writePlain } from "./chunk-frame.ts";
import type { LiveExchange } from "./exchange.ts";
import { ended } from "./run.ts";

/** Where an answer goes. Named as in node:http, whose response is one kind; the other is the fast path's. */
export interface ClientResponse {
  /** False: the connection closes behind this answer. */
  shouldKeepAlive: boolean;
  /** The head is decided. */
  readonly headersSent: boolean;
  /** All was handed to the kernel. */
  readonly writableFinished: boolean;
  /** Bytes that the kernel has not taken yet. */
  readonly writableLength: number;
  /** Told when there is room again after `writeChunk` returned false. */
  onDrain: (() => void) | undefined;

  /** This is the answer of `x`, which is told (`ended`) once: when it is over, or when the client has gone. */
  begin(x: LiveExchange): void;
  writeContinue(): void;
  writeEarlyHints(hints: Record<string, string | string[]>): void;
  /** `fields`: flat name, value … Throws for a status or a field that HTTP does not allow. */
  writeHead(status: number, fields?: string[]): unknown;
  /** The whole body. `encoding` is a text's; latin1 is the cheaper one for ASCII alone. */
  end(body: string | Uint8Array, encoding: "utf8" | "latin1"): unknown;

  /** Sends the head now. Without it, it leaves with the first chunk. */
  flushHeaders(): void;
  /** A chunk of `length` bytes, in the frame that the head promised. False asks to wait. */
  writeChunk(chunk: Uint8Array | string, length: number): boolean;
  /** Ends a body of chunks. `done` is told once: all was handed to the kernel, or never will be. */
  endChunks(
    last: Uint8Array | undefined,
    trailers: [string, string][] | undefined,
    done: () => void,
  ): void;

  /** Cuts the exchange off when its client takes nothing for so long (milliseconds); 0 forgets it. */
  watch(stallMs: number): void;
  destroy(): unknown;
}

/** node:http's response. Its listeners find the exchange through `this` and are shared by all. */
export class ExchangeResponse extends ServerResponse implements ClientResponse {
  exchange: LiveExchange | undefined = undefined;
  onDrain: (() => void) | undefined = undefined;
  /** Chunks go to the socket past node:http, which has sent the head. */
  #isDirect = false;
  #hasBegun = false;
  /** For the next `drain`. */
  #waits = false;
  #watched = false;

  begin(x: LiveExchange): void {
    this.exchange = x;
    this.once("close", onClose);
    if (this.socket === null) awaitTurn(this);
  }

  /** Before its turn node:http would only forget it, and every answer behind it would wait for ever. */
  override destroy(error?: Error): this {
    if (this.socket === null) this.once("socket", (socket: Socket) => socket.destroy());
    return super.destroy(error);
  }

  override flushHeaders(): void {
    if (!this.#hasBegun) super.flushHeaders();
    // A pipelined answer has no socket before its turn: node:http keeps what is written until then.
    this.#isDirect = this.chunkedEncoding && this.socket !== null;
  }

  writeChunk(chunk: Uint8Array | string, length: number): boolean {
    this.#hasBegun = true;
    const direct = this.#isDirect ? this.socket : null;
    const room =
      direct === null ? writePlain(this, chunk, length) : writeChunk(direct, chunk, length);
    if (!room && !this.#waits) {
      this.#waits = true;
      (direct ?? this).once("drain", () => {
        this.#waits = false;
        this.onDrain?.();
      });
    }
    return room;
  }

  endChunks(
    last: Uint8Array | undefined,
    trailers: [string, string][] | undefined,
    done: () => void,
  ): void {
    if (trailers !== undefined) this.addTrailers(trailers);
    this.once("close", done);
    if (last === undefined) this.end(done);
    else this.end(last, done);
  }

  watch(stallMs: number): void {
    if (!this.#watched) this.on("timeout", onTimeout);
    this.#watched = true;
    // The socket's own timer: it starts anew whenever the kernel has taken something.
    this.setTimeout(stallMs);
  }
}

/** By connection, the answers to pipelined requests that began before their turn to be sent. */
const queued = new WeakMap<Socket, Set<ExchangeResponse>>();

/** node:http tells the end of a connection to the answer that is being sent, and not to those behind it. */
function awaitTurn(response: ExchangeResponse): void {
  const { socket } = response.req;
  const others = queued.get(socket);
  const waiting = others ?? new Set();
  waiting.add(response);
  response.once("close", () => waiting.delete(response));
  if (others !== undefined) return;
  queued.set(socket, waiting);
  socket.once("close", () => {
    for (const each of waiting) if (each.socket === null) each.emit("close");
  });
}

/** The response has ended or its client has gone: both arrive here, once. */
function onClose(this: ExchangeResponse): void {
  if (this.exchange !== undefined) ended(this.exchange, this.writableFinished);
}

function onTimeout(this: ExchangeResponse): void {
  this.exchange?.cutOff("timedOut");
}
