/**
 * Serves sessions at `/cstream/1` for gateways with the worker's token, and the public documents `/status` and
 * `/healthz`.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import {
  messageLimits,
  offeredSubprotocols,
  pingMs,
  UnfinishedBytes,
  type UnfinishedLimits,
} from "sluice-gateway/internal/http";
import { runGuarded } from "sluice-gateway/internal/toolkit";
import { WebSocketServer } from "ws";
import type { EnclaveSessionDeps } from "../enclave/session.ts";
import { workerSubprotocol } from "../protocol/hello.ts";
import { maxTextBytes } from "../protocol/limits.ts";
import { serveSession, type SessionSocket } from "./session-socket.ts";

export interface WorkerServerOptions extends EnclaveSessionDeps {
  readonly host: string;
  /** 0 selects a free port. */
  readonly port: number;
  /** Bearer token that a session requires. If undefined, anyone can open a session. */
  readonly token: string | undefined;
  readonly status: (state: ServerState) => object;
}

export interface ServerState {
  readonly answering: ReadonlySet<string>;
  readonly isDraining: boolean;
}

export interface WorkerServer {
  /** `host:port`, IPv6 in brackets. */
  readonly authority: string;
  /**
   * Refuses new sessions and waits until the open ones end. After `ms`, the others are terminated. Resolves when all
   * have ended and the port is free.
   */
  stop(ms: number): Promise<void>;
}

export const streamPath = "/cstream/1";
const maxSessions = 4_096;
/** Memory for requests that have not arrived completely. Gateways limit the share of each of their keys. */
const unfinishedLimits: UnfinishedLimits = {
  maxBytes: 268_435_456,
  maxBytesPerOwner: 268_435_456,
};

/** Rejects with the system's error if the server cannot listen. */
export async function listenForSessions(options: WorkerServerOptions): Promise<WorkerServer> {
  const { clock, host, port, token } = options;
  const open = new Set<SessionSocket>();
  const unfinished = new UnfinishedBytes();
  const parts = { ...options, hold: () => unfinished.hold("gateways", unfinishedLimits) };
  const expected = token === undefined ? undefined : digestOf(`Bearer ${token}`);
  let isDraining = false;
  let ended: (() => void) | undefined;
  const webSockets = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    // Compression does not make ciphertext shorter.
    perMessageDeflate: false,
    ...messageLimits(maxTextBytes),
    handleProtocols: () => workerSubprotocol,
  });
  const state = (): ServerState => {
    const busy = Array.from(open, ({ answering }) => answering);
    return { answering: new Set(busy.filter((model) => model !== undefined)), isDraining };
  };
  /** An exception closes the connection, not the process. */
  const closeOnError = (socket: Socket, run: () => void): void =>
    runGuarded(run, (error) => {
      options.log.error({ err: error }, "a connection to the worker failed");
      socket.destroy();
    });
  const server = createServer((request, response) => {
    closeOnError(request.socket, () => answer(request, response, () => options.status(state())));
  });
  // After an upgrade, node:http no longer counts the socket among its connections.
  const upgraded = new Set<Socket>();
  server.on("upgrade", (request, socket: Socket, head) => {
    upgraded.add(socket);
    socket.once("close", () => upgraded.delete(socket));
    closeOnError(socket, () => upgrade(request, socket, head));
  });
  const upgrade = (request: IncomingMessage, socket: Socket, head: Buffer): void => {
    const isFull = isDraining || open.size >= maxSessions;
    const refusal = upgradeRefusal(request, expected) ?? (isFull ? "503 Service Unavailable" : "");
    if (refusal !== "") return refuse(socket, refusal);
    webSockets.handleUpgrade(request, socket, head, (webSocket) => {
      const session = serveSession(webSocket, socket, parts, () => {
        open.delete(session);
        if (open.size === 0) ended?.();
      });
      open.add(session);
    });
  };
  server.listen(port, host);
  await once(server, "listening");
  const pings = clock.every(pingMs, () => {
    for (const each of open) each.ping();
  });
  return {
    authority: authorityOf(server.address() as AddressInfo),
    async stop(ms) {
      isDraining = true;
      for (const each of open) each.stop();
      await allEnded(ms);
      pings[Symbol.dispose]();
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      for (const socket of upgraded) socket.destroy();
      await closed;
    },
  };

  async function allEnded(ms: number): Promise<void> {
    if (open.size === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    ended = resolve;
    using _limit = clock.after(ms, () => {
      for (const each of open) each.terminate();
    });
    await promise;
  }
}

function answer(request: IncomingMessage, response: ServerResponse, status: () => object): void {
  const path = request.url?.split("?", 1)[0];
  const isRead = request.method === "GET" || request.method === "HEAD";
  if (path !== "/status" && path !== "/healthz") return send(response, 404, { error: "not found" });
  if (!isRead) {
    response.setHeader("allow", "GET, HEAD");
    return send(response, 405, { error: "method not allowed" });
  }
  send(response, 200, path === "/status" ? status() : { status: "ok" });
}

function send(response: ServerResponse, code: number, document: object): void {
  response
    .writeHead(code, { "content-type": "application/json", "cache-control": "no-store" })
    .end(JSON.stringify(document));
}

function upgradeRefusal(
  { method, url, headers }: IncomingMessage,
  expected: Buffer | undefined,
): string | undefined {
  if (method !== "GET" || url?.split("?", 1)[0] !== streamPath) return "404 Not Found";
  // Gateways are not browsers: a request with an origin comes from a page in a browser that can reach the worker.
  if (headers.origin !== undefined) return "403 Forbidden";
  if (expected !== undefined && !timingSafeEqual(digestOf(headers.authorization), expected)) {
    return "401 Unauthorized";
  }
  const offered = offeredSubprotocols(headers["sec-websocket-protocol"]);
  return offered?.includes(workerSubprotocol) === true ? undefined : "400 Bad Request";
}

/** Returns a digest of fixed length, with which tokens of any length can be compared in constant time. */
function digestOf(text: string | undefined): Buffer {
  return createHash("sha256")
    .update(text ?? "")
    .digest();
}

function refuse(socket: Socket, status: string): void {
  // The client may have already closed the socket. The error does not matter.
  socket.on("error", () => {});
  // Closes the socket even if the client keeps its own side open.
  socket.once("finish", () => socket.destroySoon());
  socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
}

function authorityOf({ address, family, port }: AddressInfo): string {
  return `${family === "IPv6" ? `[${address}]` : address}:${port}`;
}
