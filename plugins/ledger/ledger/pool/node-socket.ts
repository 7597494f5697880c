/** A WebSocket to a node, for calls or for subscriptions. It is opened at once, and is not opened again when it is lost. */
import { Liveness, pingMs } from "sluice-gateway/internal/http";
import type { Clock } from "sluice-gateway/plugin";
import { guarded } from "sluice-gateway/internal/toolkit";
import { WebSocket, type RawData } from "ws";
import { basicCredentials } from "./request-head.ts";

export interface NodeSocketOptions {
  readonly url: URL;
  readonly clock: Clock;
  readonly connectMs: number;
  /** Maximum size of a message of the node. */
  readonly messageBytes: number;
  /** True if `onMessage` checks that messages are UTF-8. */
  readonly skipUTF8Validation: boolean;
  readonly onOpen: () => void;
  /** Called with each message. If it throws, the socket is lost. */
  readonly onMessage: (bytes: Buffer) => void;
  /** Called at most once, and not after `close`. `code`: the code of the system or of `ws`, if there is one. */
  readonly onLost: (kind: SocketLoss, code: string | undefined) => void;
}

type SocketLoss = "connectTimeout" | "idleTimeout" | "closed" | "garbage";

export class NodeSocket {
  readonly #socket: WebSocket;
  readonly #liveness: Liveness;
  readonly #onLost: NodeSocketOptions["onLost"];
  readonly #timers: readonly Disposable[];
  #isPaused = false;
  #isClosed = false;

  constructor(options: NodeSocketOptions) {
    const { url, clock, connectMs, messageBytes, skipUTF8Validation, onOpen } = options;
    const credentials = basicCredentials(url);
    const address = new URL(url);
    address.username = address.password = "";
    const socket = new WebSocket(address, {
      perMessageDeflate: false,
      maxPayload: messageBytes,
      skipUTF8Validation,
      ...(credentials === undefined ? {} : { headers: { authorization: `Basic ${credentials}` } }),
    });
    this.#socket = socket;
    this.#onLost = options.onLost;
    this.#liveness = new Liveness(socket);
    const connecting = clock.after(connectMs, () => this.#lose("connectTimeout"));
    this.#timers = [connecting, clock.every(pingMs, () => this.#ping())];
    socket.on("open", () => {
      connecting[Symbol.dispose]();
      if (!this.#isClosed) onOpen();
    });
    socket.on("error", ({ code }: NodeJS.ErrnoException) => this.#lose("closed", code));
    socket.on("close", () => this.#lose("closed"));
    // With the default binaryType, a message is one Buffer.
    const onMessage = (data: RawData): void => {
      this.#liveness.confirm();
      if (!this.#isClosed) options.onMessage(data as Buffer);
    };
    socket.on(
      "message",
      guarded(onMessage, () => this.#lose("garbage")),
    );
  }

  get isOpen(): boolean {
    return !this.#isClosed && this.#socket.readyState === WebSocket.OPEN;
  }

  /** Number of bytes that the node has not read yet. */
  get unsentBytes(): number {
    return this.#socket.bufferedAmount;
  }

  send(text: string): void {
    this.#socket.send(text, () => {});
  }

  /** Reads nothing more from the node, except for messages that have already arrived. */
  pause(): void {
    this.#isPaused = true;
    this.#socket.pause();
  }

  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#liveness.confirm();
    this.#socket.resume();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const timer of this.#timers) timer[Symbol.dispose]();
    this.#socket.terminate();
    if (this.#socket.readyState === WebSocket.CLOSED) return;
    await new Promise((resolve) => this.#socket.once("close", resolve));
  }

  #ping(): void {
    // No pings are sent while the socket is paused, because a pong would not be read.
    if (!this.isOpen || this.#isPaused) return;
    if (!this.#liveness.ping()) this.#lose("idleTimeout");
  }

  #lose(kind: SocketLoss, code?: string): void {
    if (this.#isClosed) return;
    void this.close();
    this.#onLost(kind, code);
  }
}
