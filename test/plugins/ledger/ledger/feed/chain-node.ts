/** A WebSocket node with a chain that only the test extends: older subscriptions, and a follow without operations. */
import type { WebSocket } from "ws";
import { healthyNode } from "../../../../e2e/rpc-node.ts";
import { WsNode, type WsCall } from "../../ws-node.ts";

export const hashOf = (number: number): string => `0x${number.toString(16).padStart(64, "0")}`;

/** The header of a block, as JSON text with unusual spacing, so that tests notice if it is rewritten. */
export function headerOf(number: number, fork = 0): string {
  const root = hashOf(number + 1_000_000 * (fork + 1));
  return `{"parentHash": "${hashOf(number - 1)}","number":"0x${number.toString(16)}","stateRoot":"${root}","extrinsicsRoot":"${root}","digest":{"logs":[]}}`;
}

const notifications: Readonly<Record<string, string>> = {
  chain_subscribeNewHeads: "chain_newHead",
  chain_subscribeAllHeads: "chain_allHead",
  chain_subscribeFinalizedHeads: "chain_finalizedHead",
  chainHead_v1_follow: "chainHead_v1_followEvent",
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

export class ChainNode extends WsNode {
  best = 100;
  finalized = 100;
  runtime = '{"specName":"test","specVersion":1}';
  /** The values of storage keys as JSON text. */
  readonly storage = new Map<string, string>();
  /** Answers by method: the members `result` or `error` as JSON text. Empty if the node does not answer. */
  readonly answers = new Map<string, string>();
  readonly subscribers = new Set<Subscriber>();
  static start(port = 0): Promise<ChainNode> {
    return new ChainNode(port).listening();
  }

  protected override onLeft(socket: WebSocket): void {
    for (const each of this.subscribers) if (each.socket === socket) this.subscribers.delete(each);
  }

  open(method: string): number {
    return [...this.subscribers].filter((each) => each.method === method).length;
  }

  /** Extends the chain. Every block is announced, and finalized at once. */
  advance(to: number): void {
    while (this.best < to) {
      this.extend(this.best + 1);
      this.finalize(this.best);
    }
  }

  extend(to: number): void {
    while (this.best < to) {
      this.best++;
      this.notify("chain_subscribeNewHeads", headerOf(this.best));
      this.notify("chain_subscribeAllHeads", headerOf(this.best));
      this.notify("chainHead_v1_follow", newBlock(this.best));
      this.notify("chainHead_v1_follow", bestBlock(this.best));
    }
  }

  finalize(to: number): void {
    const hashes: string[] = [];
    while (this.finalized < to) {
      this.finalized++;
      hashes.push(hashOf(this.finalized));
      this.notify("chain_subscribeFinalizedHeads", headerOf(this.finalized));
    }
    const lists = `"finalizedBlockHashes":${JSON.stringify(hashes)},"prunedBlockHashes":[]`;
    if (hashes.length > 0) this.notify("chainHead_v1_follow", `{"event":"finalized",${lists}}`);
  }

  /** Sends a notification to all subscribers of a method. `result`: JSON text. */
  notify(method: string, result: string): void {
    for (const each of this.subscribers) if (each.method === method) this.#send(each, result);
  }

  say(text: string): void {
    for (const { socket } of this.subscribers) socket.send(text);
  }

  #send({ socket, id, method }: Subscriber, result: string): void {
    socket.send(
      `{"jsonrpc":"2.0","method":"${notifications[method]}","params":{"subscription":"${id}","result":${result}}}`,
    );
  }

  protected answer(socket: WebSocket, { id, method, params }: WsCall): void {
    const reply = (result: string): void =>
      socket.send(`{"jsonrpc":"2.0","id":${id},"result":${result}}`);
    const isHead = method === "chain_getHeader" && params.length > 0;
    if (isHead || !(method in healthyNode)) this.calls.push(`${method} ${JSON.stringify(params)}`);
    const scripted = this.answers.get(method);
    if (scripted === "") return;
    if (scripted !== undefined) return socket.send(`{"jsonrpc":"2.0","id":${id},${scripted}}`);
    if (method in notifications) return this.#subscribe(socket, method, params, reply);
    if (/unsubscribe|unwatch|unfollow/.test(method)) {
      const found = [...this.subscribers].find((each) => each.id === params[0]);
      if (found !== undefined) this.subscribers.delete(found);
      return reply(String(found !== undefined));
    }
    if (method === "chain_getHeader") {
      const number = params.length > 0 ? Number(params[0]) : this.best;
      return reply(number <= this.best ? headerOf(number) : "null");
    }
    if (method === "chain_getBlockHash") {
      const number = typeof params[0] === "number" ? params[0] : this.best;
      return reply(number <= this.best ? `"${hashOf(number)}"` : "null");
    }
    if (method === "chain_getFinalizedHead") return reply(`"${hashOf(this.finalized)}"`);
    if (method === "archive_v1_finalizedHeight") return reply(String(this.finalized));
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
    const subscriber = { socket, id: `node-${++this.nextId}`, method, params };
    this.subscribers.add(subscriber);
    reply(`"${subscriber.id}"`);
    const isFinalized = method === "chain_subscribeFinalizedHeads";
    const head = isFinalized ? this.finalized : this.best;
    if (method.endsWith("Heads")) this.#send(subscriber, headerOf(head));
    if (method === "chainHead_v1_follow") {
      const hashes = `"finalizedBlockHashes":["${hashOf(this.finalized)}"]`;
      this.#send(subscriber, `{"event":"initialized",${hashes}}`);
      for (let number = this.finalized + 1; number <= this.best; number++)
        this.#send(subscriber, newBlock(number));
      this.#send(subscriber, bestBlock(this.best));
    }
    if (method === "state_subscribeRuntimeVersion") this.#send(subscriber, this.runtime);
    if (method === "state_subscribeStorage") {
      const keys = params[0] as readonly string[];
      const changes = keys.map((key) => `["${key}",${this.storage.get(key) ?? "null"}]`);
      this.#send(subscriber, `{"block":"${hashOf(this.best)}","changes":[${changes.join(",")}]}`);
    }
  }
}

function newBlock(number: number): string {
  return `{"event":"newBlock","blockHash":"${hashOf(number)}","parentBlockHash":"${hashOf(number - 1)}"}`;
}

function bestBlock(number: number): string {
  return `{"event":"bestBlockChanged","bestBlockHash":"${hashOf(number)}"}`;
}
