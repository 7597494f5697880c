/** A TCP proxy that behaves like a bad network between a client and a database. */
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";

export interface FaultProxy extends AsyncDisposable {
  readonly port: number;
  /** Port of the server on the loopback address. A change counts for new connections. */
  serverPort: number;
  /** Milliseconds by which each piece of data is delayed, in both directions. */
  delayMs: number;
  /** Keeps connections open but loses all data in this direction. `up`: from the client to the server. */
  stalled: "none" | "up" | "down" | "both";
  refuses: boolean;
  /**
   * Number of replies to drop: of the next requests that contain `dropAfter`, the server's reply is read, not passed
   * on, and the connection is reset. The server has then committed, and the client cannot know it.
   */
  repliesToDrop: number;
  dropAfter: string;
  readonly dropped: number;
  /** Number of requests to hold: of the next ones that contain `holdAfter`, nothing is passed on before `release`. */
  requestsToHold: number;
  holdAfter: string;
  readonly held: number;
  /**
   * Sends the held requests to the server, although their clients may have left, and drops the replies. Resolves when the
   * server has answered them or has closed their connections.
   */
  release(): Promise<void>;
  reset(): void;
}

export async function startFaultProxy(serverPort: number): Promise<FaultProxy> {
  const open = new Set<Socket>();
  const holding = new Map<Socket, Buffer[]>();
  let dropped = 0;
  const track = (socket: Socket): void => {
    open.add(socket);
    socket.on("close", () => open.delete(socket));
    socket.on("error", () => {});
  };
  const server = createServer();
  const proxy: FaultProxy = {
    // It listens on TCP.
    get port() {
      return (server.address() as AddressInfo).port;
    },
    serverPort,
    delayMs: 0,
    stalled: "none",
    refuses: false,
    repliesToDrop: 0,
    dropAfter: "",
    get dropped() {
      return dropped;
    },
    requestsToHold: 0,
    holdAfter: "",
    get held() {
      return holding.size;
    },
    async release() {
      const answered = [...holding].map(async ([upstream, chunks]) => {
        const { promise, resolve } = Promise.withResolvers<void>();
        upstream.once("data", resolve);
        upstream.once("close", resolve);
        upstream.write(Buffer.concat(chunks));
        await promise;
        upstream.destroy();
      });
      holding.clear();
      await Promise.all(answered);
    },
    reset() {
      for (const socket of open) socket.resetAndDestroy();
    },
    async [Symbol.asyncDispose]() {
      for (const socket of [...open, ...holding.keys()]) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
  server.on("connection", (client: Socket) => {
    track(client);
    if (proxy.refuses) {
      client.resetAndDestroy();
      return;
    }
    const upstream = connect(proxy.serverPort, "127.0.0.1");
    track(upstream);
    let isDropping = false;
    let held: Buffer[] | undefined;
    const pass = (to: Socket, chunk: Buffer): void => {
      if (proxy.delayMs === 0) to.write(chunk);
      else setTimeout(() => void (to.writable && to.write(chunk)), proxy.delayMs);
    };
    client.on("data", (chunk: Buffer) => {
      if (proxy.stalled === "up" || proxy.stalled === "both") return;
      if (held !== undefined) {
        held.push(chunk);
        return;
      }
      if (proxy.requestsToHold > 0 && chunk.includes(proxy.holdAfter)) {
        proxy.requestsToHold--;
        held = [chunk];
        holding.set(upstream, held);
        open.delete(upstream);
        return;
      }
      if (proxy.repliesToDrop > 0 && chunk.includes(proxy.dropAfter)) {
        proxy.repliesToDrop--;
        isDropping = true;
      }
      pass(upstream, chunk);
    });
    upstream.on("data", (chunk: Buffer) => {
      if (held !== undefined || proxy.stalled === "down" || proxy.stalled === "both") return;
      if (!isDropping) {
        pass(client, chunk);
        return;
      }
      dropped++;
      client.resetAndDestroy();
      upstream.destroy();
    });
    client.on("close", () => {
      if (held === undefined) upstream.destroy();
    });
    upstream.on("close", () => {
      holding.delete(upstream);
      client.destroy();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return proxy;
}
