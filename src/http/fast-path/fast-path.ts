/**
 * Ordinary requests without node:http, whose parser and messages cost 5 of the 12 µs of CPU that its server takes for a
 * small one (bench/notes/2026-11-node-proxy.md). A connection begins here and is served here as long as each of its
 * requests is small, comes at once and is as request-head.ts wants it. At the first that is not, the connection with
 * all that was read of it goes to node:http, for good.
 */
import type { Server } from "node:http";
import type { Socket } from "node:net";
import type { ServerConfig } from "../../config/config.ts";
import type { ClientRequest } from "../../pipeline/run/arrival.ts";
import { systemClock } from "../../clock.ts";
import { answerBadRequest } from "../bad-request.ts";
import { FastConnection, type Shared } from "./connection.ts";
import type { FastResponse } from "./response.ts";

/** A client that uses its connection until the last moment shall not find it closed: node:http waits as long. */
const keepAliveBufferMs = 1_000;

export interface FastPath extends Disposable {
  /** Closes the connections on which nothing is being answered. */
  closeIdle(): void;
  closeAll(): void;
}

type Listener = (socket: Socket) => void;

/** Takes the connections of `http`, a server that listens or will. */
export function openFastPath(
  http: Server,
  serve: (req: ClientRequest, res: FastResponse, body: Buffer) => void,
  config: ServerConfig,
): FastPath {
  // What listens for `connection` takes a socket.
  const nodeHttp = http.listeners("connection") as Listener[];
  const connections = new Set<FastConnection>();
  const shared = {
    keepAliveSeconds: Math.floor(config.keepAliveMs / 1000),
    now: systemClock.monotonic(),
    serve,
    handOver(socket: Socket) {
      for (const listener of nodeHttp) listener.call(http, socket);
    },
    closed: (connection: FastConnection) => connections.delete(connection),
  } satisfies Shared;
  http.removeAllListeners("connection");
  http.on("connection", (socket: Socket) => {
    connections.add(new FastConnection(socket, shared));
  });

  const sweepMs = Math.min(1_000, Math.max(10, Math.min(config.headersMs, config.keepAliveMs) / 2));
  // By real time, like the timers of node:http.
  const sweep = systemClock.every(sweepMs, () => {
    const now = systemClock.monotonic();
    shared.now = now;
    for (const connection of connections) {
      connection.passOnLate();
      if (!connection.isIdle) continue;
      // At least so long: `idleSince` may be as old as the sweep before it.
      const idleMs = now - connection.idleSince - sweepMs;
      if (!connection.isUsed && idleMs >= config.headersMs) timeOut(connection.socket);
      if (connection.isUsed && idleMs >= config.keepAliveMs + keepAliveBufferMs) {
        connection.socket.destroy();
      }
    }
  });
  return {
    closeIdle() {
      for (const { isIdle, socket } of connections) if (isIdle) socket.destroy();
    },
    closeAll() {
      for (const { socket } of connections) socket.destroy();
    },
    [Symbol.dispose]: () => sweep[Symbol.dispose](),
  };
}

function timeOut(socket: Socket): void {
  const error = Object.assign(new Error("no request came"), { code: "ERR_HTTP_REQUEST_TIMEOUT" });
  answerBadRequest(error, socket);
}
