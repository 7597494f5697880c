/**
 * A node with `chainHead_v1_follow`, whose chain the benchmark extends, and with `archive_v1_storage`, which has a fixed
 * number of results.
 */
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { WebSocketServer, type WebSocket } from "ws";

const hashAt = (number: number): string => `0x${number.toString(16).padStart(64, "0")}`;

/** Number of items of each read of `archive_v1_storage`. */
export const itemsPerRead = 20_000;
/** The node waits while this many bytes wait for the reader. */
const maxUnsentBytes = 1_048_576;

const answers: Readonly<Record<string, unknown>> = {
  system_health: { peers: 3, isSyncing: false, shouldHavePeers: true },
  chain_getFinalizedHead: hashAt(1),
  chain_getBlockHash: hashAt(1),
  chain_getHeader: { number: "0x1" },
  system_version: "1",
  state_getRuntimeVersion: { specName: "test", specVersion: 1 },
  rpc_methods: { methods: [] },
};

export class BenchNode {
  #best = 1;
  readonly #follows = new Map<WebSocket, string[]>();
  readonly #server: WebSocketServer;

  static async start(): Promise<BenchNode> {
    const server = new WebSocketServer({ host: "127.0.0.1", port: 0 });
    await once(server, "listening");
    return new BenchNode(server);
  }

  private constructor(server: WebSocketServer) {
    this.#server = server;
    server.on("connection", (socket) => {
      socket.on("error", () => {});
      socket.on("close", () => this.#follows.delete(socket));
      socket.on("message", (data) => this.#answer(socket, (data as Buffer).toString()));
    });
  }

  get url(): string {
    return `ws://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Number of follows. */
  get follows(): number {
    return [...this.#follows.values()].flat().length;
  }

  /** Adds a block and finalizes it: three events for each follow. */
  advance(): void {
    const parent = hashAt(this.#best);
    const hash = hashAt(++this.#best);
    for (const event of [
      `{"event":"newBlock","blockHash":"${hash}","parentBlockHash":"${parent}","newRuntime":null}`,
      `{"event":"bestBlockChanged","bestBlockHash":"${hash}"}`,
      `{"event":"finalized","finalizedBlockHashes":["${hash}"],"prunedBlockHashes":[]}`,
    ]) {
      for (const [socket, ids] of this.#follows) for (const id of ids) notify(socket, id, event);
    }
  }

  /** Ends all connections and the port. */
  async stop(): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    for (const socket of this.#server.clients) socket.terminate();
    await closed;
  }

  #answer(socket: WebSocket, text: string): void {
    const { id, method, params } = JSON.parse(text) as {
      id: number;
      method: string;
      params?: readonly unknown[];
    };
    const say = (result: unknown): void =>
      socket.send(JSON.stringify({ jsonrpc: "2.0", id, result }));
    if (method === "archive_v1_storage") {
      say(`r${id}`);
      return sendItems(socket, `r${id}`, 0);
    }
    // The follow has reported this block.
    if (method === "chain_getBlockHash" && params?.[0] !== 0) return say(hashAt(this.#best));
    if (method !== "chainHead_v1_follow") return say(answers[method] ?? null);
    const ids = this.#follows.get(socket) ?? [];
    const subscription = `f${ids.length}`;
    this.#follows.set(socket, [...ids, subscription]);
    say(subscription);
    const hash = hashAt(this.#best);
    notify(
      socket,
      subscription,
      `{"event":"initialized","finalizedBlockHashes":["${hash}"],"finalizedBlockRuntime":{"type":"valid","spec":{}}}`,
    );
    notify(socket, subscription, `{"event":"bestBlockChanged","bestBlockHash":"${hash}"}`);
  }
}

function notify(socket: WebSocket, subscription: string, event: string): void {
  socket.send(
    `{"jsonrpc":"2.0","method":"chainHead_v1_followEvent","params":{"subscription":"${subscription}","result":${event}}}`,
  );
}

/** Sends the items of a read from number `at`, as fast as they are read, and then `storageDone`. */
function sendItems(socket: WebSocket, id: string, at: number): void {
  let next = at;
  while (next < itemsPerRead && socket.bufferedAmount < maxUnsentBytes) {
    sendEvent(
      socket,
      id,
      `{"event":"storage","key":"${hashAt(next++)}","value":"${hashAt(next)}"}`,
    );
  }
  if (socket.readyState !== socket.OPEN) return;
  if (next === itemsPerRead) sendEvent(socket, id, '{"event":"storageDone"}');
  else setImmediate(() => sendItems(socket, id, next));
}

function sendEvent(socket: WebSocket, subscription: string, event: string): void {
  socket.send(
    `{"jsonrpc":"2.0","method":"archive_v1_storageEvent","params":{"subscription":"${subscription}","result":${event}}}`,
  );
}
