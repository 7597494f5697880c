/** Starts a gateway that forwards everything to a scripted upstream, and opens raw sockets on both sides. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type RequestListener, type Server as HttpServer } from "node:http";
import { connect, createServer as createTcpServer, type Server, type Socket } from "node:net";
import { systemClock } from "../../src/base/clock.ts";
import type { ServerConfig } from "../../src/config/config.ts";
import type { Clock, Exchange, ForwardOptions, Log, Outcome } from "../../src/plugin.ts";
import { createForwarder } from "../../src/http/upstream/forward.ts";
import { UpstreamPools } from "../../src/http/upstream/upstream.ts";
import { noMetrics, serve, type Served, type TestStep } from "../pipeline/harness.ts";

export interface ForwardingGateway extends AsyncDisposable {
  readonly served: Served;
  readonly port: number;
  readonly pools: UpstreamPools;
  readonly outcomes: readonly Outcome[];
  settled(count: number): Promise<void>;
}

export interface ForwardingOptions {
  readonly forward?: ForwardOptions;
  readonly steps?: readonly TestStep[];
  readonly server?: Partial<ServerConfig>;
  readonly clock?: Clock;
  readonly connectMs?: number;
  readonly headersMs?: number;
  readonly idleMs?: number;
  readonly connections?: number;
  readonly origin?: string;
  /** Path and query that a plugin has put in place of the client's. */
  readonly target?: string;
}

/** Disposes of the gateway and its pools, and checks that no callback threw. The caller disposes of the upstreams. */
export async function startForwardingGateway(
  upstreamPorts: number | readonly number[],
  options: ForwardingOptions = {},
): Promise<ForwardingGateway> {
  const { connectMs = 5_000, headersMs = 5_000, idleMs = 5_000, connections = 10 } = options;
  const { origin = "http://127.0.0.1", target } = options;
  const urls = [upstreamPorts].flat().map((port) => `${origin}:${port}`);
  const upstream = { name: "upstream", urls, connectMs, headersMs, idleMs, connections };
  const bugs: object[] = [];
  const log: Log = {
    debug() {},
    info() {},
    warn() {},
    error: (fields) => void bugs.push(fields),
    child: () => log,
  };
  const pools = new UpstreamPools(upstream, options.clock ?? systemClock, log);
  const forwarder = createForwarder(pools, options.forward ?? {}, noMetrics);
  const outcomes: Outcome[] = [];
  let wake = (): void => {};
  const watch: TestStep = {
    name: "watch",
    settled(_, outcome) {
      outcomes.push(outcome);
      wake();
    },
  };
  const steps = [watch, ...(options.steps ?? [])];
  const surface = {
    answer: (x: Exchange) => forwarder.forward(x, target === undefined ? {} : { target }),
  };
  const served = await serve([{ path: "/*", methods: ["*"], steps, surface }], {
    ...(options.server !== undefined && { server: options.server }),
  });
  return {
    served,
    port: served.port,
    pools,
    outcomes,
    async settled(count) {
      while (outcomes.length < count) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
    async [Symbol.asyncDispose]() {
      await served[Symbol.asyncDispose]();
      for (const { client } of pools.members) await client.close();
      assert.deepEqual(bugs, []);
    },
  };
}

export interface Upstream extends AsyncDisposable {
  readonly port: number;
  readonly sockets: readonly Socket[];
}

async function listening(server: Server | HttpServer): Promise<Upstream> {
  const sockets: Socket[] = [];
  server.on("connection", (socket: Socket) => {
    socket.on("error", () => {});
    sockets.push(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  return {
    port: typeof address === "object" && address !== null ? address.port : 0,
    sockets,
    async [Symbol.asyncDispose]() {
      server.close();
      for (const socket of sockets) socket.destroy();
      await once(server, "close");
    },
  };
}

export function httpUpstream(handler: RequestListener): Promise<Upstream> {
  return listening(createServer(handler));
}

/** `onHead` gets the head of each request, and the bytes after it that arrived with it. */
export function rawUpstream(
  onHead: (socket: Socket, head: string, count: number) => void,
): Promise<Upstream> {
  let count = 0;
  return listening(
    createTcpServer((socket) => {
      let text = "";
      socket.on("data", (chunk) => {
        text += chunk.toString("latin1");
        if (!text.includes("\r\n\r\n")) return;
        const head = text;
        text = "";
        onHead(socket, head, ++count);
      });
    }),
  );
}

export async function deadPort(): Promise<number> {
  const { port, [Symbol.asyncDispose]: close } = await rawUpstream(() => {});
  await close();
  return port;
}

export interface RawClient extends Disposable {
  readonly socket: Socket;
  /** Everything received so far, in Latin-1. */
  readonly received: () => string;
  send(text: string): void;
  /** Resolves when `text` has been received; rejects when the connection ends without it. */
  until(text: string): Promise<string>;
  closed(): Promise<string>;
}

export function rawClient(port: number): RawClient {
  const socket = connect(port, "127.0.0.1");
  let received = "";
  let wake = (): void => {};
  socket.on("data", (chunk) => {
    received += chunk.toString("latin1");
    wake();
  });
  socket.on("error", () => {});
  socket.on("close", () => {
    wake();
  });
  const change = (): Promise<void> =>
    new Promise((resolve) => {
      wake = resolve;
    });
  return {
    socket,
    received: () => received,
    send: (text) => void socket.write(text, "latin1"),
    async until(text) {
      while (!received.includes(text)) {
        if (socket.closed) throw new Error(`closed without ${JSON.stringify(text)}: ${received}`);
        await change();
      }
      return received;
    },
    async closed() {
      while (!socket.closed) await change();
      return received;
    },
    [Symbol.dispose]: () => socket.destroy(),
  };
}

/** Resolves when `measure` has kept its value for a while, because everything in flight has arrived. */
export async function whenStable(measure: () => number): Promise<number> {
  let last = measure();
  for (let same = 0; same < 5;) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    const now = measure();
    same = now === last ? same + 1 : 0;
    last = now;
  }
  return last;
}
