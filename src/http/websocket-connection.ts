/** The WebSocket connection that a surface gets, and the end of its exchange. */
import type { Socket } from "node:net";
import type { RawData, WebSocket } from "ws";
import type { LiveExchange } from "../pipeline/run/exchange.ts";
import { runCallback } from "../pipeline/run/answer.ts";
import { ended } from "../pipeline/run/run.ts";
import type { Connection } from "../plugin.ts";

/** Maximum time in which a client must answer the closing handshake. */
const closeMs = 5_000;

export class LiveConnection implements Connection {
  onDrain: (() => void) | undefined;
  onClose: ((code: number) => void) | undefined;
  readonly #x: LiveExchange;
  readonly #webSocket: WebSocket;
  readonly #socket: Socket;
  #onMessage: Connection["onMessage"];
  /** Messages that arrived before `onMessage` was set. */
  #early: { readonly data: Buffer; readonly isText: boolean }[] = [];
  #onGoAway: (() => void) | undefined;
  #goingAway = false;
  /** True if the client has answered the last ping. */
  #alive = true;
  #paused = false;
  #closing: Disposable | undefined;
  #stalled: Disposable | undefined;
  #closedByUs = false;
  #corked = false;
  readonly #uncork = (): void => {
    this.#corked = false;
    this.#socket.uncork();
  };

  /** `gone`: called when the connection has ended. */
  constructor(x: LiveExchange, webSocket: WebSocket, socket: Socket, gone: () => void) {
    this.#x = x;
    this.#webSocket = webSocket;
    this.#socket = socket;
    x.connection = this;
    webSocket.on("message", (data, isBinary) => this.#received(data, !isBinary));
    webSocket.on("pong", () => {
      this.#alive = true;
    });
    // After an invalid frame or a socket error, `ws` closes the connection itself, with the code of RFC 6455.
    webSocket.on("error", () => {});
    webSocket.on("close", (code) => {
      gone();
      this.#ended(code);
    });
    socket.on("drain", () => this.#drained());
  }

  get onMessage(): Connection["onMessage"] {
    return this.#onMessage;
  }

  set onMessage(listener: Connection["onMessage"]) {
    this.#onMessage = listener;
    if (listener === undefined) return;
    for (const { data, isText } of this.#early.splice(0)) {
      runCallback(this.#x, listener, data, isText);
    }
  }

  get onGoAway(): (() => void) | undefined {
    return this.#onGoAway;
  }

  set onGoAway(listener: (() => void) | undefined) {
    this.#onGoAway = listener;
    if (this.#goingAway) runCallback(this.#x, listener);
  }

  send(message: string | Uint8Array): boolean {
    const webSocket = this.#webSocket;
    if (webSocket.readyState !== webSocket.OPEN) return true;
    this.#cork();
    webSocket.send(message);
    this.#x.sent.bodyBytes +=
      typeof message === "string" ? Buffer.byteLength(message) : message.length;
    const room = !this.#socket.writableNeedDrain;
    const { clock, stallMs } = this.#x.runtime;
    // A client that does not read must not hold memory indefinitely.
    if (!room) this.#stalled ??= clock.after(stallMs, () => this.#x.cutOff("timedOut"));
    return room;
  }

  pause(): void {
    this.#paused = true;
    this.#webSocket.pause();
  }

  resume(): void {
    this.#paused = false;
    this.#webSocket.resume();
  }

  close(code: number, reason: string): void {
    this.#closedByUs = true;
    // A paused connection would not read the client's answer.
    this.resume();
    this.#webSocket.close(code, reason);
    this.#closing ??= this.#x.runtime.clock.after(closeMs, () => this.terminate());
  }

  /** Pings the client. Terminates the connection if the client has not answered the last ping. */
  ping(): void {
    // The pong would not be read while the connection is paused.
    if (this.#paused) return;
    if (!this.#alive) return this.terminate();
    this.#alive = false;
    this.#webSocket.ping();
  }

  goAway(): void {
    if (this.#goingAway) return;
    this.#goingAway = true;
    runCallback(this.#x, this.#onGoAway);
  }

  /** Closes the connection without a handshake. */
  terminate(): void {
    this.#webSocket.terminate();
  }

  /**
   * Combines the frames of one turn of the event loop to one write. One read of 64 KiB may cause hundreds of frames.
   */
  #cork(): void {
    if (this.#corked) return;
    this.#corked = true;
    this.#socket.cork();
    process.nextTick(this.#uncork);
  }

  #received(data: RawData, isText: boolean): void {
    // With the default `binaryType`, messages are Buffers.
    const bytes = data as Buffer;
    if (this.#onMessage === undefined) this.#early.push({ data: bytes, isText });
    else runCallback(this.#x, this.#onMessage, bytes, isText);
  }

  #drained(): void {
    this.#stalled?.[Symbol.dispose]();
    this.#stalled = undefined;
    runCallback(this.#x, this.onDrain);
  }

  #ended(code: number): void {
    this.#closing?.[Symbol.dispose]();
    this.#stalled?.[Symbol.dispose]();
    runCallback(this.#x, this.onClose, code);
    // A closing handshake of either side is a normal end. Without one, the client has left.
    ended(this.#x, this.#closedByUs || code !== 1006);
  }
}
