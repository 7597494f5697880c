/** A WebSocket node with the subscriptions of `archive_v1`, whose events the test scripts. */
import { once } from "node:events";
import { WebSocketServer, type WebSocket } from "ws";
import { healthyNode } from "../../../../e2e/rpc-node.ts";

interface Call {
  readonly id: number;
  readonly method: string;
  readonly params: readonly unknown[];
}

interface Read {
  readonly socket: WebSocket;
  readonly id: string;
  readonly method: string;
}

export const value = (key: string, text = "0x2a"): string =>
  `{"event":"storage", "key":"${key}","value":"${text}"}`;
export const done = '{"event":"storageDone"}';

export class ArchiveNode implements AsyncDisposable {
  /** The events with which a new read is answered. */
  events: readonly string[] = [value("0x01"), done];
  /** Answers to the calls that begin a read: a JSON-RPC error as JSON text. */
  refusal: string | undefined;
  /** True if the node does not answer the calls that begin a read. */
  isSilent = false;
  /** Every call of `archive_v1` as `method params`. */
  readonly calls: string[] = [];
  /** Reads that have not been finished or stopped. */
  readonly reads = new Set<Read>();
  readonly #server: WebSocketServer;
  #nextId = 0;

  static async start(): Promise<ArchiveNode> {
    const server = new WebSocketServer({ host: "127.0.0.1", port: 0 });
    await once(server, "listening");
    return new ArchiveNode(server);
  }

  private constructor(server: WebSocketServer) {
    this.#server = server;
    server.on("connection", (socket) => {
      socket.on("error", () => {});
      socket.on("message", (data) => this.#answer(socket, JSON.parse((data as Buffer).toString())));
      socket.on("close", () => {
        for (const read of this.reads) if (read.socket === socket) this.reads.delete(read);
      });
    });
  }

  get url(): string {
    return `ws://127.0.0.1:${(this.#server.address() as { port: number }).port}`;
  }

  count(method: string): number {
    return this.calls.filter((call) => call.startsWith(`${method} `)).length;
  }

  /** Number of connections. */
  get connections(): number {
    return this.#server.clients.size;
  }

  /** Sends an event to all reads. `result`: JSON text. */
  say(result: string): void {
    for (const read of this.reads) this.#say(read, result);
  }

  /** Number of bytes that the gateway has not read. */
  get unreadBytes(): number {
    return [...this.#server.clients].reduce((sum, { bufferedAmount }) => sum + bufferedAmount, 0);
  }

  /** Cuts the connections of all reads. */
  cut(): void {
    for (const { socket } of this.reads) socket.terminate();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    for (const socket of this.#server.clients) socket.terminate();
    await closed;
  }

  #say(read: Read, result: string): void {
    if (/^\{"event":"storage(?:Diff)?(?:Done|Error)"/.test(result)) this.reads.delete(read);
    read.socket.send(
      `{"jsonrpc":"2.0","method":"${read.method}Event","params":{"subscription":"${read.id}","result":${result}}}`,
    );
  }

  #answer(socket: WebSocket, { id, method, params }: Call): void {
    const say = (member: string): void => socket.send(`{"jsonrpc":"2.0","id":${id},${member}}`);
    const healthy = healthyNode[method]?.(params);
    if (healthy !== undefined) return say(`"result":${JSON.stringify(healthy)}`);
    if (!method.startsWith("archive_v1_sto")) {
      return say('"error":{"code":-32601,"message":"Method not found"}');
    }
    this.calls.push(`${method} ${JSON.stringify(params)}`);
    if (method.includes("stop")) {
      for (const read of this.reads) if (read.id === params[0]) this.reads.delete(read);
      return say('"result":true');
    }
    if (this.isSilent) return;
    if (this.refusal !== undefined) return say(`"error":${this.refusal}`);
    const read = { socket, id: `node-${++this.#nextId}`, method };
    this.reads.add(read);
    say(`"result":"${read.id}"`);
    for (const event of this.events) this.#say(read, event);
  }
}
