/**
 * A node with `chainHead_v1_follow` and `chain_subscribeNewHeads`, whose chain the benchmark extends, and with
 * `archive_v1_storage`, which has a fixed number of results. Every block is finalized at once.
 */
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { WebSocketServer, type WebSocket } from "ws";

export interface Kind {
  readonly request: string;
  readonly notification: string;
  /** Number of notifications that a new client gets at once. */
  readonly firstNotifications: number;
  readonly notificationsPerBlock: number;
}

export const kinds: Readonly<Record<string, Kind>> = {
  chainHead_v1_follow: {
    request: '{"jsonrpc":"2.0","id":1,"method":"chainHead_v1_follow","params":[true]}',
    notification: "chainHead_v1_followEvent",
    firstNotifications: 2,
    notificationsPerBlock: 3,
  },
  chain_subscribeNewHeads: {
    request: '{"jsonrpc":"2.0","id":1,"method":"chain_subscribeNewHeads","params":[]}',
    notification: "chain_newHead",
    firstNotifications: 1,
    notificationsPerBlock: 1,
  },
};

/** The hash of a block is its number. */
const hashAt = (number: number): string => `0x${number.toString(16).padStart(64, "0")}`;

function headerAt(number: number): object {
  const root = hashAt(number);
  return {
    parentHash: hashAt(number - 1),
    number: `0x${number.toString(16)}`,
    stateRoot: root,
    extrinsicsRoot: root,
    digest: { logs: [] },
  };
}

export const itemsPerRead = 20_000;
/** The node waits while this many bytes wait for the reader. */
const maxUnsentBytes = 1_048_576;

const answers: Readonly<Record<string, unknown>> = {
  system_health: { peers: 3, isSyncing: false, shouldHavePeers: true },
  system_version: "1",
  state_getRuntimeVersion: { specName: "test", specVersion: 1 },
  rpc_methods: { methods: [] },
};

interface Subscription {
  readonly socket: WebSocket;
  readonly id: string;
  readonly notification: string;
}

export class BenchNode {
  #best = 1;
  readonly #subscriptions = new Set<Subscription>();
  #nextId = 0;
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
      socket.on("close", () => {
        for (const each of this.#subscriptions)
          if (each.socket === socket) this.#subscriptions.delete(each);
      });
      socket.on("message", (data) => this.#answer(socket, (data as Buffer).toString()));
    });
  }

  get url(): string {
    return `ws://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Number of subscriptions, other than reads of storage. */
  get subscriptions(): number {
    return this.#subscriptions.size;
  }

  /** Adds a block: three events for each follow, and one head for each subscription to heads. */
  advance(): void {
    const parent = hashAt(this.#best);
    const hash = hashAt(++this.#best);
    const events = [
      `{"event":"newBlock","blockHash":"${hash}","parentBlockHash":"${parent}","newRuntime":null}`,
      `{"event":"bestBlockChanged","bestBlockHash":"${hash}"}`,
      `{"event":"finalized","finalizedBlockHashes":["${hash}"],"prunedBlockHashes":[]}`,
    ];
    const head = JSON.stringify(headerAt(this.#best));
    for (const each of this.#subscriptions) {
      for (const result of each.notification === "chain_newHead" ? [head] : events)
        notify(each, result);
    }
  }

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
    const hash = hashAt(this.#best);
    switch (method) {
      case "chain_getFinalizedHead":
        return say(hash);
      case "chain_getBlockHash":
        return say(params?.[0] === 0 ? hashAt(0) : hash);
      case "chain_getHeader":
        return say(headerAt(Number(params?.[0] ?? this.#best)));
      case "chain_subscribeNewHeads":
        return notify(
          this.#subscribe(socket, "chain_newHead", say),
          JSON.stringify(headerAt(this.#best)),
        );
      case "chainHead_v1_follow": {
        const follow = this.#subscribe(socket, "chainHead_v1_followEvent", say);
        const runtime = '{"type":"valid","spec":{}}';
        notify(
          follow,
          `{"event":"initialized","finalizedBlockHashes":["${hash}"],"finalizedBlockRuntime":${runtime}}`,
        );
        return notify(follow, `{"event":"bestBlockChanged","bestBlockHash":"${hash}"}`);
      }
      default:
        return say(answers[method] ?? null);
    }
  }

  #subscribe(
    socket: WebSocket,
    notification: string,
    say: (result: unknown) => void,
  ): Subscription {
    const subscription = { socket, notification, id: `s${++this.#nextId}` };
    this.#subscriptions.add(subscription);
    say(subscription.id);
    return subscription;
  }
}

function notify({ socket, id, notification }: Subscription, result: string): void {
  socket.send(
    `{"jsonrpc":"2.0","method":"${notification}","params":{"subscription":"${id}","result":${result}}}`,
  );
}

/** Sends the items as fast as they are read, from number `at`. */
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
