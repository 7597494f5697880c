/** The server of the scripted nodes over WebSocket. A class answers its calls. */
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { WebSocketServer, type WebSocket } from "ws";

export interface WsCall {
  readonly id: number;
  readonly method: string;
  readonly params: readonly unknown[];
}

export abstract class WsNode implements AsyncDisposable {
  /** True while the node accepts no connections. */
  isAway = false;
  /** The calls that the class records, as `method params`. */
  readonly calls: string[] = [];
  protected readonly clients: ReadonlySet<WebSocket>;
  protected nextId = 0;
  readonly #server: WebSocketServer;

  constructor(port = 0) {
    const verifyClient = (): boolean => !this.isAway;
    this.#server = new WebSocketServer({ host: "127.0.0.1", port, verifyClient });
    this.clients = this.#server.clients;
    this.#server.on("connection", (socket) => {
      socket.on("error", () => {});
      socket.on("message", (data) => this.answer(socket, JSON.parse((data as Buffer).toString())));
      socket.on("close", () => this.onLeft(socket));
    });
  }

  protected abstract answer(socket: WebSocket, call: WsCall): void;

  protected abstract onLeft(socket: WebSocket): void;

  async listening(): Promise<this> {
    await once(this.#server, "listening");
    return this;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
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

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#server.address() === null) return;
    const closed = once(this.#server, "close");
    this.#server.close();
    for (const socket of this.clients) socket.terminate();
    await closed;
  }
}
