/** A WebSocket node with a chain that only the test extends, and with the older subscriptions. */
import { once } from "node:events";
import { WebSocketServer, type WebSocket } from "ws";
import { healthyNode } from "../../../../e2e/rpc-node.ts";

export const hashOf = (number: number): string => `0x${number.toString(16).padStart(64, "0")}`;

/** The header of a block, as JSON text with unusual spacing, so that tests notice if it is rewritten. */
export function headerOf(number: number, fork = 0): string {
  const root = hashOf(number + 1_000_000 * (fork + 1));
  return `{"parentHash": "${hashOf(number - 1)}","number":"0x${number.toString(16)}","stateRoot":"${root}","extrinsicsRoot":"${root}","digest":{"logs":[]}}`;
}

interface Call {
  readonly id: number;
  readonly method: string;
  readonly params: readonly unknown[];
}

const notifications: Readonly<Record<string, string>> = {
  chain_subscribeNewHeads: "chain_newHead",
  chain_subscribeAllHeads: "chain_allHead",
  chain_subscribeFinalizedHeads: "chain_finalizedHead",
  state_subscribeRuntimeVersion: "state_runtimeVersion",
  state_subscribeStorage: "state_storage",
  grandpa_subscribeJustifications: "grandpa_justifications",
  author_submitAndWatchExtrinsic: "author_extrinsicUpdate",
  transactionWatch_v1_submitAndWatch: "transactionWatch_v1_watchEvent",
};

interface Subscriber {
  readonly socket: WebSocket;
  readonly id: string;
  readonly method: string;
  readonly params: readonly unknown[];
}

export class ChainNode implements AsyncDisposable {
  best = 100;
  runtime = '{"specName":"test","specVersion":1}';
  /** The values of storage keys as JSON text. */
  readonly storage = new Map<string, string>();
  /** Answers by method: the members `result` or `error` as JSON text. Empty if the node does not answer. */
  readonly answers = new Map<string, string>();
  readonly subscribers = new Set<Subscriber>();
  /** Every call as `method params`, without probes of the pool. */
  readonly calls: string[] = [];
  readonly #server: WebSocketServer;
  #nextId = 0;

  static async start(port = 0): Promise<ChainNode> {
    const server = new WebSocketServer({ host: "127.0.0.1", port });
    await once(server, "listening");
    return new ChainNode(server);
  }

  private constructor(server: WebSocketServer) {
    this.#server = server;
    server.on("connection", (socket) => {
      socket.on("error", () => {});
      socket.on("message", (data) => this.#answer(socket, JSON.parse((data as Buffer).toString())));
      socket.on("close", () => {
        for (const each of this.subscribers)
          if (each.socket === socket) this.subscribers.delete(each);
      });
    });
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port;
  }

  get url(): string {
    return `ws://127.0.0.1:${this.port}`;
  }

  count(method: string): number {
    return this.calls.filter((call) => call.startsWith(`${method} `)).length;
  }

  /** Number of open subscriptions of a method. */
  open(method: string): number {
    return [...this.subscribers].filter((each) => each.method === method).length;
  }

  /** Extends the chain. Every block is announced, and finalized at once. */
  advance(to: number): void {
    while (this.best < to) {
      this.best++;
      for (const method of Object.keys(notifications)) {
        if (method.endsWith("Heads")) this.notify(method, headerOf(this.best));
      }
    }
  }

  /** Sends a notification to all subscribers of a method. `result`: JSON text. */
  notify(method: string, result: string): void {
    for (const each of this.subscribers) if (each.method === method) this.#send(each, result);
  }

  /** Sends any text to every connection with a subscription. */
  say(text: string): void {
    for (const { socket } of this.subscribers) socket.send(text);
  }

  /** Cuts all connections. New ones are accepted. */
  cut(): void {
    for (const socket of this.#server.clients) socket.terminate();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#server.address() === null) return;
    const closed = once(this.#server, "close");
    this.#server.close();
    this.cut();
    await closed;
  }

  #send({ socket, id, method }: Subscriber, result: string): void {
    socket.send(
      `{"jsonrpc":"2.0","method":"${notifications[method]}","params":{"subscription":"${id}","result":${result}}}`,
    );
  }

  #answer(socket: WebSocket, { id, method, params }: Call): void {
    const reply = (result: string): void =>
      socket.send(`{"jsonrpc":"2.0","id":${id},"result":${result}}`);
    const isHead = method === "chain_getHeader" && params.length > 0;
    if (isHead || !(method in healthyNode)) this.calls.push(`${method} ${JSON.stringify(params)}`);
    const scripted = this.answers.get(method);
    if (scripted === "") return;
    if (scripted !== undefined) return socket.send(`{"jsonrpc":"2.0","id":${id},${scripted}}`);
    if (method in notifications) return this.#subscribe(socket, method, params, reply);
    if (/unsubscribe|unwatch/.test(method)) {
      const found = [...this.subscribers].find((each) => each.id === params[0]);
      if (found !== undefined) this.subscribers.delete(found);
      return reply(String(found !== undefined));
    }
    if (method === "chain_getHeader") {
      const number = params.length > 0 ? Number(params[0]) : this.best;
      return reply(number <= this.best ? headerOf(number) : "null");
    }
    if (method === "chain_getBlockHash" || method === "chain_getFinalizedHead") {
      return reply(`"${hashOf(typeof params[0] === "number" ? params[0] : this.best)}"`);
    }
    const result = healthyNode[method]?.(params);
    if (result !== undefined) return reply(JSON.stringify(result));
    socket.send(
      `{"jsonrpc":"2.0","id":${id},"error":{"code":-32601,"message":"Method not found","data":1.0}}`,
    );
  }

  #subscribe(
    socket: WebSocket,
    method: string,
    params: readonly unknown[],
    reply: (result: string) => void,
  ): void {
    const subscriber = { socket, id: `node-${++this.#nextId}`, method, params };
    this.subscribers.add(subscriber);
    reply(`"${subscriber.id}"`);
    if (method.endsWith("Heads")) this.#send(subscriber, headerOf(this.best));
    if (method === "state_subscribeRuntimeVersion") this.#send(subscriber, this.runtime);
    if (method === "state_subscribeStorage") {
      const keys = params[0] as readonly string[];
      const changes = keys.map((key) => `["${key}",${this.storage.get(key) ?? "null"}]`);
      this.#send(subscriber, `{"block":"${hashOf(this.best)}","changes":[${changes.join(",")}]}`);
    }
  }
}
