import type { Socket } from "node:net";
import type { RawData, WebSocket } from "ws";
import type { LiveExchange } from "../pipeline/run/exchange.ts";
import type { Connection } from "../plugin.ts";
import type { HeldPart } from "../memory/held-bytes.ts";
import { Liveness } from "./liveness.ts";

const closeMs = 5_000;

export class LiveConnection implements Connection {
  /** The caller for which the connection's memory counts. */
  readonly caller: string;
  onDrain: (() => void) | undefined;
  onClose: ((code: number) => void) | undefined;
  readonly #x: LiveExchange;
  readonly #webSocket: WebSocket;
  readonly #socket: Socket;
  #onMessage: Connection["onMessage"];
  #early: { readonly data: Buffer; readonly isText: boolean }[] = [];
  #onGoAway: (() => void) | undefined;
  #isGoingAway = false;
  readonly #liveness: Liveness;
  #unsent: HeldPart | undefined;
  /** The time limit of the closing handshake that the surface has begun. */
  #closing: Disposable | undefined;
  #stalled: Disposable | undefined;
  #isCorked = false;
  readonly #cutOff = (): void => this.#x.cutOff("timedOut");
  readonly #uncork = (): void => {
    this.#isCorked = false;
    this.#socket.uncork();
  };

  constructor(x: LiveExchange, webSocket: WebSocket, socket: Socket, onEnded: () => void) {
    this.#x = x;
    this.caller = x.callerId;
    this.#webSocket = webSocket;
    this.#socket = socket;
    this.#liveness = new Liveness(webSocket);
    x.attach(this);
    webSocket.on("message", (data, isBinary) => this.#received(data, !isBinary));
    // After an invalid frame or a socket error, `ws` closes the connection itself, with the code of RFC 6455.
    webSocket.on("error", () => {});
    webSocket.on("close", (code) => {
      onEnded();
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
      this.#x.runCallback(listener, data, isText);
    }
  }

  get onGoAway(): (() => void) | undefined {
    return this.#onGoAway;
  }

  set onGoAway(listener: (() => void) | undefined) {
    this.#onGoAway = listener;
    if (this.#isGoingAway) this.#x.runCallback(listener);
  }

  get unsentBytes(): number {
    return this.#webSocket.bufferedAmount;
  }

  send(message: string | Uint8Array, isText = typeof message === "string"): boolean {
    const webSocket = this.#webSocket;
    if (webSocket.readyState !== webSocket.OPEN) return true;
    this.#cork();
    webSocket.send(message, { binary: !isText });
    this.#x.record.bodyBytes +=
      typeof message === "string" ? Buffer.byteLength(message) : message.length;
    const room = !this.#socket.writableNeedDrain;
    const { clock, stallMs } = this.#x.runtime;
    // A client that does not read must not hold memory indefinitely.
    if (!room) {
      this.#stalled ??= clock.after(stallMs, this.#cutOff);
      this.#unsent ??= this.#x.runtime.held.hold(this.caller, "answer", this.#cutOff);
      if (!this.#unsent.resize(this.unsentBytes)) this.#cutOff();
    }
    return room;
  }

  pause(): void {
    this.#webSocket.pause();
  }

  resume(): void {
    this.#webSocket.resume();
  }

  close(code: number, reason: string): void {
    // A paused connection would not read the client's answer.
    this.resume();
    this.#webSocket.close(code, reason);
    this.#closing ??= this.#x.runtime.clock.after(closeMs, () => this.terminate());
  }

  /** Terminates the connection if the client has not answered the last ping. */
  ping(): void {
    // The pong would not be read while the connection is paused.
    if (this.#webSocket.isPaused) return;
    if (!this.#liveness.ping()) this.terminate();
  }

  goAway(): void {
    if (this.#isGoingAway) return;
    this.#isGoingAway = true;
    this.#x.runCallback(this.#onGoAway);
  }

  terminate(): void {
    this.#webSocket.terminate();
  }

  /** Writes the frames of one turn of the event loop together. One read of 64 KiB may cause hundreds of frames. */
  #cork(): void {
    if (this.#isCorked) return;
    this.#isCorked = true;
    this.#socket.cork();
    process.nextTick(this.#uncork);
  }

  #received(data: RawData, isText: boolean): void {
    // With the default `binaryType`, messages are Buffers.
    const bytes = data as Buffer;
    if (this.#onMessage === undefined) this.#early.push({ data: bytes, isText });
    else this.#x.runCallback(this.#onMessage, bytes, isText);
  }

  #drained(): void {
    this.#stopWaiting();
    this.#x.runCallback(this.onDrain);
  }

  #stopWaiting(): void {
    this.#stalled?.[Symbol.dispose]();
    this.#stalled = undefined;
    this.#unsent?.[Symbol.dispose]();
    this.#unsent = undefined;
  }

  #ended(code: number): void {
    this.#closing?.[Symbol.dispose]();
    this.#stopWaiting();
    this.#x.runCallback(this.onClose, code);
    // A closing handshake of either side is a normal end. Without one, the client has left.
    this.#x.onClose(this.#closing !== undefined || code !== 1006);
  }
}
