/** A WebSocket node that handles each message as the test decides. */
import { EventEmitter, once } from "node:events";
import type { IncomingMessage } from "node:http";
import type { WebSocket } from "ws";
import { WsNode } from "../../ws-node.ts";

export type WsScript = (text: string, socket: WebSocket) => void;

class ScriptedWsNode extends WsNode {
  script: WsScript;
  readonly received: string[] = [];
  readonly upgrades: IncomingMessage[] = [];
  readonly #greeting: string | undefined;
  readonly #events = new EventEmitter();

  constructor(script: WsScript, { port = 0, autoPong = true, greeting }: WsNodeOptions) {
    super(port, autoPong);
    this.script = script;
    this.#greeting = greeting;
  }

  get open(): ReadonlySet<WebSocket> {
    return this.clients;
  }

  seen(n: number): Promise<void> {
    return this.#until(() => this.received.length >= n);
  }

  joined(n: number): Promise<void> {
    return this.#until(() => this.upgrades.length >= n);
  }

  deserted(): Promise<void> {
    return this.#until(() => this.clients.size === 0);
  }

  protected override onOpened(socket: WebSocket, request: IncomingMessage): void {
    this.upgrades.push(request);
    if (this.#greeting !== undefined) socket.send(this.#greeting);
    this.#events.emit("change");
  }

  protected override receive(socket: WebSocket, text: string): void {
    this.received.push(text);
    this.#events.emit("change");
    this.script(text, socket);
  }

  protected override onLeft(): void {
    // The server still counts the connection.
    setImmediate(() => this.#events.emit("change"));
  }

  protected answer(): void {}

  async #until(holds: () => boolean): Promise<void> {
    while (!holds()) await once(this.#events, "change");
  }
}

interface WsNodeOptions {
  readonly port?: number;
  readonly autoPong?: boolean;
  readonly greeting?: string;
}

export function startWsNode(
  script: WsScript,
  options: WsNodeOptions = {},
): Promise<ScriptedWsNode> {
  return new ScriptedWsNode(script, options).listening();
}
