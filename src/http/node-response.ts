import { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { ClientResponse, ResponseOwner } from "../message/client-response.ts";
import { writeChunk, writePlain } from "./chunk-frame.ts";

/** The listeners find their response through `this`, so that all responses share them. */
export class ExchangeResponse extends ServerResponse implements ClientResponse {
  owner: ResponseOwner | undefined = undefined;
  onDrain: ClientResponse["onDrain"] = undefined;
  #onHalfClose: (() => void) | undefined = undefined;
  /** True if chunks are written to the socket directly, because node:http has sent the head. */
  #isDirect = false;
  #hasChunks = false;
  #awaitsDrain = false;

  begin(owner: ResponseOwner): void {
    this.owner = owner;
    this.once("close", onClose);
    if (this.socket === null) awaitTurn(this);
  }

  get onHalfClose(): (() => void) | undefined {
    return this.#onHalfClose;
  }

  /** node:http itself ends the connection on this event. */
  set onHalfClose(listener: (() => void) | undefined) {
    const { socket } = this.req;
    if (this.#onHalfClose !== undefined) socket.off("end", this.#onHalfClose);
    if (listener !== undefined) socket.prependListener("end", listener);
    this.#onHalfClose = listener;
  }

  /** Before its turn, node:http would only drop a pipelined response, and every later one would wait forever. */
  override destroy(error?: Error): this {
    if (this.socket === null) this.once("socket", (socket: Socket) => socket.destroy());
    return super.destroy(error);
  }

  override flushHeaders(): void {
    if (!this.#hasChunks) super.flushHeaders();
    // A pipelined response has no socket before its turn: node:http keeps what is written until then.
    this.#isDirect = this.chunkedEncoding && this.socket !== null;
  }

  writeChunk(chunk: Uint8Array | string, length: number): boolean {
    this.#hasChunks = true;
    const direct = this.#isDirect ? this.socket : null;
    const hasRoom =
      direct === null ? writePlain(this, chunk, length) : writeChunk(direct, chunk, length);
    if (!hasRoom && !this.#awaitsDrain) {
      this.#awaitsDrain = true;
      (direct ?? this).once("drain", () => {
        this.#awaitsDrain = false;
        this.onDrain?.drained();
      });
    }
    return hasRoom;
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
}

/** The responses to pipelined requests that began before their turn to be sent, by connection. */
const queued = new WeakMap<Socket, Set<ExchangeResponse>>();

/** node:http reports the end of a connection to the response that is being sent, and not to those queued after it. */
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

/** Called once, both when the response has ended and when its client has left. */
function onClose(this: ExchangeResponse): void {
  this.owner?.onClose(this.writableFinished);
}
