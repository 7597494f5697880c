/** The server of the scripted nodes over WebSocket. A class answers its calls. */
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { WebSocketServer, type WebSocket } from "ws";

export interface WsCall {
  readonly id: number;
  readonly method: string;
  readonly params: readonly unknown[];
}

export abstract class WsNode implements AsyncDisposable {
  isAway = false;
  /** The calls that the class records, as `method params`. */
  readonly calls: string[] = [];
  protected readonly clients: ReadonlySet<WebSocket>;
  protected nextId = 0;
  port = 0;
  readonly #server: WebSocketServer;

  constructor(port = 0, autoPong = true) {
    const verifyClient = (): boolean => !this.isAway;
    this.#server = new WebSocketServer({ host: "127.0.0.1", port, autoPong, verifyClient });
    this.clients = this.#server.clients;
    this.#server.on("connection", (socket, request) => {
      socket.on("error", () => {});
      socket.on("message", (data) => this.receive(socket, (data as Buffer).toString()));
      socket.on("close", () => this.onLeft(socket));
      this.onOpened(socket, request);
    });
  }

  protected abstract answer(socket: WebSocket, call: WsCall): void;

  protected onOpened(_socket: WebSocket, _request: IncomingMessage): void {}

  protected receive(socket: WebSocket, text: string): void {
    this.answer(socket, JSON.parse(text));
  }

  protected onLeft(_socket: WebSocket): void {}

  async listening(): Promise<this> {
    await once(this.#server, "listening");
    this.port = (this.#server.address() as AddressInfo).port;
    return this;
  }

  get url(): string {
    return `ws://127.0.0.1:${this.port}`;
  }

  count(method: string): number {
    return this.calls.filter((call) => call.startsWith(`${method} `)).length;
  }

  /** Cuts all connections. New ones are accepted. */
  cut(): void {
    for (const socket of this.clients) socket.terminate();
  }

  async close(): Promise<void> {
    if (this.#server.address() === null) return;
    const closed = once(this.#server, "close");
    this.#server.close();
    this.cut();
    await closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
