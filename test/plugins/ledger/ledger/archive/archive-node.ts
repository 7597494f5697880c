/** A WebSocket node with the subscriptions of `archive_v1`, whose events the test scripts. */
import type { WebSocket } from "ws";
import { healthyNode } from "../../../../e2e/rpc-node.ts";
import { WsNode, type WsCall } from "../../ws-node.ts";

interface Read {
  readonly socket: WebSocket;
  readonly id: string;
  readonly method: string;
}

export const value = (key: string, text = "0x2a"): string =>
  `{"event":"storage", "key":"${key}","value":"${text}"}`;
export const done = '{"event":"storageDone"}';

export class ArchiveNode extends WsNode {
  events: readonly string[] = [value("0x01"), done];
  /** Answers to the calls that begin a read: a JSON-RPC error as JSON text. */
  refusal: string | undefined;
  isSilent = false;
  readonly reads = new Set<Read>();
  static start(port = 0): Promise<ArchiveNode> {
    return new ArchiveNode(port).listening();
  }

  protected override onLeft(socket: WebSocket): void {
    for (const read of this.reads) if (read.socket === socket) this.reads.delete(read);
  }

  get connections(): number {
    return this.clients.size;
  }

  /** Sends an event to all reads. `result`: JSON text. */
  say(result: string): void {
    for (const read of this.reads) this.#say(read, result);
  }

  get unreadBytes(): number {
    return [...this.clients].reduce((sum, { bufferedAmount }) => sum + bufferedAmount, 0);
  }

  override cut(): void {
    for (const { socket } of this.reads) socket.terminate();
  }

  #say(read: Read, result: string): void {
    if (/^\{"event":"storage(?:Diff)?(?:Done|Error)"/.test(result)) this.reads.delete(read);
    read.socket.send(
      `{"jsonrpc":"2.0","method":"${read.method}Event","params":{"subscription":"${read.id}","result":${result}}}`,
    );
  }

  protected answer(socket: WebSocket, { id, method, params }: WsCall): void {
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
    const read = { socket, id: `node-${++this.nextId}`, method };
    this.reads.add(read);
    say(`"result":"${read.id}"`);
    for (const event of this.events) this.#say(read, event);
  }
}
