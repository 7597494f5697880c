/** A WebSocket node with `chainHead_v1`, whose chain the test extends. Like a real one, it checks pins and limits. */
import type { WebSocket } from "ws";
import { healthyNode } from "../../../../e2e/rpc-node.ts";
import { WsNode, type WsCall } from "../../ws-node.ts";

/** The hash of a block of fork 0 to 255. */
export const hashAt = (number: number, fork = 0): string =>
  `0x${fork.toString(16).padStart(2, "0")}${number.toString(16).padStart(62, "0")}`;

const numberOf = (hash: string): number => Number(`0x${hash.slice(4)}`);

interface Follow {
  readonly socket: WebSocket;
  readonly id: string;
  readonly withRuntime: boolean;
  readonly pinned: Set<string>;
  /** Operations that have not ended, by id, with what they still have to send. */
  readonly operations: Map<string, string[]>;
}

interface LiveBlock {
  readonly hash: string;
  readonly parent: string;
}

export const runtimeOf = (version: number): string =>
  `{"type":"valid","spec":{"specName":"test","specVersion": ${version},"apis":{}}}`;

export class FollowNode extends WsNode {
  finalized = [hashAt(99), hashAt(100)];
  readonly live: LiveBlock[] = [];
  best = hashAt(100);
  runtime = runtimeOf(1);
  maxOperations = 16;
  /** Number of the best block that the node reports to probes, if it is not that of `best`. */
  bestNumber: number | undefined;
  readonly answers = new Map<string, unknown>();
  /** The error with which operations are refused, as JSON text. */
  refusal: string | undefined;
  /** True while operations are accepted but get no events. */
  isHolding = false;
  isSilent = false;
  readonly follows = new Set<Follow>();
  static start(port = 0): Promise<FollowNode> {
    return new FollowNode(port).listening();
  }

  protected override onLeft(socket: WebSocket): void {
    for (const each of this.follows) if (each.socket === socket) this.follows.delete(each);
  }

  get pinned(): readonly string[] {
    return [...this.follows].flatMap(({ pinned }) => [...pinned]).toSorted();
  }

  /** Adds a block, which becomes the best one. `runtime`: the new runtime as JSON text. */
  add(hash: string, parent: string, runtime = "null"): void {
    this.live.push({ hash, parent });
    for (const follow of this.follows) {
      follow.pinned.add(hash);
      const newRuntime = follow.withRuntime ? `,"newRuntime":${runtime}` : "";
      this.notify(
        follow,
        `{"event":"newBlock","blockHash":"${hash}","parentBlockHash":"${parent}"${newRuntime}}`,
      );
    }
    this.best = hash;
    this.notifyAll(`{"event":"bestBlockChanged","bestBlockHash":"${hash}"}`);
  }

  finalize(hashes: readonly string[], pruned: readonly string[] = []): void {
    const done = new Set([...hashes, ...pruned]);
    const live = this.live.filter(({ hash }) => !done.has(hash));
    this.live.splice(0, Infinity, ...live);
    this.finalized = [...this.finalized, ...hashes].slice(-2);
    const lists = `"finalizedBlockHashes":${JSON.stringify(hashes)},"prunedBlockHashes":${JSON.stringify(pruned)}`;
    this.notifyAll(`{"event":"finalized",${lists}}`);
  }

  notifyAll(event: string): void {
    for (const follow of this.follows) this.notify(follow, event);
  }

  notify({ socket, id }: Follow, event: string): void {
    if (this.isSilent) return;
    socket.send(
      `{"jsonrpc":"2.0","method":"chainHead_v1_followEvent","params":{"subscription":"${id}","result":${event}}}`,
    );
  }

  say(text: string): void {
    for (const { socket } of this.follows) socket.send(text);
  }

  release(): void {
    this.isHolding = false;
    for (const follow of this.follows) {
      for (const id of follow.operations.keys()) this.#continue(follow, id);
    }
  }

  protected answer(socket: WebSocket, { id, method, params }: WsCall): void {
    const say = (member: string): void => socket.send(`{"jsonrpc":"2.0","id":${id},${member}}`);
    if (!method.startsWith("chainHead_v1_")) {
      const result = this.answers.get(method) ?? this.#read(method, params);
      return result === undefined
        ? say('"error":{"code":-32601,"message":"Method not found"}')
        : say(`"result":${JSON.stringify(result)}`);
    }
    if (method === "chainHead_v1_follow") return this.#follow(socket, params[0] === true, say);
    const [subscription, ...rest] = params;
    this.calls.push(`${method.slice(13)} ${JSON.stringify(rest)}`);
    const follow = [...this.follows].find((each) => each.id === subscription);
    if (follow === undefined) return say('"result":null');
    this.#onFollow(follow, method.slice(13), rest, say);
  }

  #read(method: string, params: readonly unknown[]): unknown {
    const [of] = params;
    const { finalized, best, bestNumber = numberOf(best) } = this;
    if (method === "chain_getFinalizedHead") return finalized.at(-1);
    if (method === "chain_getBlockHash" && of !== 0)
      return finalized.find((hash) => numberOf(hash) === of) ?? best;
    if (method !== "chain_getHeader") return healthyNode[method]?.(params);
    return healthyNode[method]?.([typeof of === "string" ? numberOf(of) : bestNumber]);
  }

  #follow(socket: WebSocket, withRuntime: boolean, say: (member: string) => void): void {
    this.calls.push(`follow [${withRuntime}]`);
    const pinned = new Set([...this.finalized, ...this.live.map(({ hash }) => hash)]);
    const id = `node-${++this.nextId}`;
    const follow = { socket, id, withRuntime, pinned, operations: new Map() };
    this.follows.add(follow);
    say(`"result":"${follow.id}"`);
    const runtime = withRuntime ? `,"finalizedBlockRuntime":${this.runtime}` : "";
    const newRuntime = withRuntime ? ',"newRuntime":null' : "";
    this.notify(
      follow,
      `{"event":"initialized","finalizedBlockHashes":${JSON.stringify(this.finalized)}${runtime}}`,
    );
    for (const { hash, parent } of this.live) {
      const blocks = `"blockHash":"${hash}","parentBlockHash":"${parent}"`;
      this.notify(follow, `{"event":"newBlock",${blocks}${newRuntime}}`);
    }
    this.notify(follow, `{"event":"bestBlockChanged","bestBlockHash":"${this.best}"}`);
  }

  #onFollow(
    follow: Follow,
    method: string,
    params: readonly unknown[],
    say: (member: string) => void,
  ): void {
    const [first] = params;
    const notPinned = '"error":{"code":-32801,"message":"Invalid block hash"}';
    switch (method) {
      case "unfollow":
        this.follows.delete(follow);
        return say('"result":null');
      case "unpin": {
        const hashes = first as readonly string[];
        if (!hashes.every((hash) => follow.pinned.has(hash))) return say(notPinned);
        for (const hash of hashes) follow.pinned.delete(hash);
        return say('"result":null');
      }
      case "header":
        return say(follow.pinned.has(String(first)) ? `"result":"0x${"ab".repeat(8)}"` : notPinned);
      case "continue":
        this.#continue(follow, String(first));
        return say('"result":null');
      case "stopOperation":
        follow.operations.delete(String(first));
        return say('"result":null');
      default:
    }
    if (this.refusal !== undefined) return say(`"error":${this.refusal}`);
    if (!follow.pinned.has(String(first))) return say(notPinned);
    if (follow.operations.size >= this.maxOperations)
      return say('"result":{"result":"limitReached"}');
    const id = `op-${++this.nextId}`;
    follow.operations.set(id, eventsOf(method, params));
    const discarded = method === "storage" ? ',"discardedItems":0' : "";
    say(`"result":{"result":"started","operationId":"${id}"${discarded}}`);
    if (!this.isHolding) this.#continue(follow, id);
  }

  /** Sends the events of an operation until it waits for the client. */
  #continue(follow: Follow, id: string): void {
    const events = follow.operations.get(id) ?? [];
    for (let event = events.shift(); event !== undefined; event = events.shift()) {
      if (events.length === 0) follow.operations.delete(id);
      this.notify(follow, event.replace("ID", id));
      if (event.includes("operationWaitingForContinue")) return;
    }
  }
}

/** Returns the events of an operation. Keys of storage that begin with 0xdd have three pages of descendants. */
function eventsOf(method: string, params: readonly unknown[]): string[] {
  const event = (name: string, more = ""): string =>
    `{"event":"operation${name}","operationId":"ID"${more}}`;
  if (method === "body") return [event("BodyDone", ',"value":["0x01", "0x02"]')];
  if (method === "call") {
    if (params[1] === "Broken_call") return [event("Error", ',"error":"it is broken"')];
    if (params[1] === "Lost_call") return [event("Inaccessible")];
    return [event("CallDone", `,"output":"${String(params[2])}ff"`)];
  }
  const [item] = params[1] as readonly { readonly key: string; readonly type: string }[];
  const { key = "", type = "" } = item ?? {};
  const page = (n: number): string =>
    event("StorageItems", `,"items":[{"key":"${key}0${n}","value":"0x0${n}"}]`);
  if (key.startsWith("0xdd")) {
    const wait = event("WaitingForContinue");
    return [page(1), wait, page(2), wait, page(3), event("StorageDone")];
  }
  if (key.startsWith("0xee")) return [event("StorageDone")];
  const items = `,"items":[{"key":"${key}","${type}":"0x2a"}]`;
  return [event("StorageItems", items), event("StorageDone")];
}
