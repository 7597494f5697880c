/**
 * Serves ordinary requests without node:http, whose parser and messages cost 5 of the 12 µs of CPU that its server
 * takes for a small request. Every connection starts here, and remains here while
 * each request is small, arrives quickly and has the form that request-head.ts accepts. At the first other request, the
 * connection is handed over to node:http permanently, with all bytes that were read of that request.
 */
import type { Server } from "node:http";
import type { Socket } from "node:net";
import type { ServerConfig } from "../../config/config.ts";
import type { ClientRequest } from "../../message/request-head.ts";
import { systemClock } from "../../base/clock.ts";
import { answerBadRequest } from "../bad-request.ts";
import { FastConnection, type ConnectionDeps } from "./connection.ts";
import type { FastResponse } from "./response.ts";

/** Connections remain open this much longer than announced, so that a late request still works. Same as node:http. */
const keepAliveBufferMs = 1_000;

export interface FastPath extends Disposable {
  closeIdle(): void;
  closeAll(): void;
}

type Listener = (socket: Socket) => void;

export function openFastPath(
  http: Server,
  serve: (req: ClientRequest, res: FastResponse, body: Buffer) => void,
  config: ServerConfig,
): FastPath {
  // Listeners of `connection` have the signature of this event.
  const nodeHttp = http.listeners("connection") as Listener[];
  const connections = new Set<FastConnection>();
  const shared = {
    keepAliveSeconds: Math.floor(config.keepAliveMs / 1000),
    now: systemClock.monotonic(),
    serve,
    handOver(socket: Socket) {
      for (const listener of nodeHttp) listener.call(http, socket);
    },
    onClose: (connection: FastConnection) => connections.delete(connection),
  } satisfies ConnectionDeps;
  http.removeAllListeners("connection");
  http.on("connection", (socket: Socket) => {
    connections.add(new FastConnection(socket, shared));
  });

  const sweepMs = Math.min(1_000, Math.max(10, Math.min(config.headersMs, config.keepAliveMs) / 2));
  // Uses real time, like the timers of node:http.
  const sweep = systemClock.every(sweepMs, () => {
    const now = systemClock.monotonic();
    shared.now = now;
    for (const connection of connections) {
      connection.handOverLate();
      if (!connection.isIdle) continue;
      // The minimum idle time, because `idleSince` may be too early by up to one sweep.
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
  const error = Object.assign(new Error("no request arrived"), {
    code: "ERR_HTTP_REQUEST_TIMEOUT",
  });
  answerBadRequest(error, socket);
}
