/** A WebSocket node that handles each message as the test decides. */
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { WebSocketServer, type WebSocket } from "ws";

export type WsScript = (text: string, socket: WebSocket) => void;

export interface ScriptedWsNode extends AsyncDisposable {
  readonly port: number;
  readonly url: string;
  script: WsScript;
  readonly received: string[];
  readonly upgrades: IncomingMessage[];
  readonly open: ReadonlySet<WebSocket>;
  /** Resolves when `n` messages have arrived in total. */
  seen(n: number): Promise<void>;
  /** Resolves when `n` connections have been made in total. */
  joined(n: number): Promise<void>;
  /** Resolves when no connection is open. */
  deserted(): Promise<void>;
  close(): Promise<void>;
}

export async function startWsNode(
  script: WsScript,
  options: { readonly port?: number; readonly autoPong?: boolean; readonly greeting?: string } = {},
): Promise<ScriptedWsNode> {
  const waiters: { readonly until: () => boolean; readonly resolve: () => void }[] = [];
  const check = (): void => {
    for (const { until, resolve } of waiters) if (until()) resolve();
  };
  const wait = (until: () => boolean): Promise<void> =>
    until() ? Promise.resolve() : new Promise((resolve) => waiters.push({ until, resolve }));
  const server = new WebSocketServer({
    host: "127.0.0.1",
    port: options.port ?? 0,
    autoPong: options.autoPong ?? true,
  });
  server.on("connection", (socket, request) => {
    node.upgrades.push(request);
    socket.on("error", () => {});
    if (options.greeting !== undefined) socket.send(options.greeting);
    socket.on("close", () => setImmediate(check));
    // Without fragments and with the default binaryType a message is one Buffer.
    socket.on("message", (data) => {
      const text = (data as Buffer).toString();
      node.received.push(text);
      check();
      node.script(text, socket);
    });
    check();
  });
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("not listening on TCP");
  const node: ScriptedWsNode = {
    port: address.port,
    url: `ws://127.0.0.1:${address.port}`,
    script,
    received: [],
    upgrades: [],
    open: server.clients,
    seen: (n) => wait(() => node.received.length >= n),
    joined: (n) => wait(() => node.upgrades.length >= n),
    deserted: () => wait(() => server.clients.size === 0),
    async close() {
      const closed = once(server, "close");
      server.close();
      for (const socket of server.clients) socket.terminate();
      await closed;
    },
    async [Symbol.asyncDispose]() {
      if (server.address() !== null) await node.close();
    },
  };
  return node;
}
