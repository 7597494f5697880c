/**
 * WebSockets on routes with `websocket: true`. The package `ws` implements the handshake and the frames; backpressure,
 * deadlines and the exchange are implemented here. An upgrade runs down its route like any request. Until a surface
 * accepts it, it can be refused with an HTTP reply.
 */
import {
  validateHeaderName,
  validateHeaderValue,
  type IncomingMessage,
  type ServerResponse,
} from "node:http";
import type { Socket } from "node:net";
import { WebSocketServer, type WebSocket } from "ws";
import { refuse } from "../base/errors.ts";
import type { LiveExchange } from "../pipeline/run/exchange.ts";
import { UpgradeFailed, type Upgrade } from "../pipeline/run/runtime.ts";
import { responseHeaders } from "../pipeline/run/hook-phases.ts";
import { runHooks } from "../pipeline/run/hooks.ts";
import { LiveResponseHead } from "../pipeline/run/response-head.ts";
import type { AcceptOptions, Clock } from "../plugin.ts";
import type { HeldBytes } from "../memory/held-bytes.ts";
import { LiveConnection } from "./websocket-connection.ts";
import { pingMs } from "./liveness.ts";
import { messageLimits } from "./message-limits.ts";
import { MessageWatch } from "./message-watch.ts";

/** RFC 6455 section 4.1: the key is 16 bytes in base64. */
const keyForm = /^[+/0-9A-Za-z]{22}==$/;

/** Returns true for a WebSocket handshake of version 13. Any other request is served as an ordinary one. */
export function asksForWebSocket(req: IncomingMessage): boolean {
  const { upgrade, "sec-websocket-version": version, "sec-websocket-key": key } = req.headers;
  return (
    req.method === "GET" &&
    upgrade?.toLowerCase() === "websocket" &&
    version === "13" &&
    key !== undefined &&
    keyForm.test(key)
  );
}

interface UpgradeRequest {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly socket: Socket;
  /** Bytes that the client sent after the head of its request. */
  readonly head: Buffer;
}

export class WebSockets implements Disposable {
  readonly #open = new Set<LiveConnection>();
  readonly #servers = new Map<number, WebSocketServer>();
  /** The subprotocol and fields of the 101 response, for each request that is being accepted. */
  readonly #accepting = new WeakMap<
    IncomingMessage,
    { readonly protocol: string | undefined; readonly fields: readonly string[] }
  >();
  readonly #pings: Disposable;
  readonly #messages: MessageWatch;
  #stopping = false;

  constructor(clock: Clock, held: HeldBytes) {
    this.#messages = new MessageWatch(clock, held);
    this.#pings = clock.every(pingMs, () => {
      for (const connection of this.#open) connection.ping();
    });
  }

  upgrade(asked: UpgradeRequest): Upgrade<LiveExchange> {
    return { accept: (x, options) => this.#accept(x, options, asked) };
  }

  goAway(): void {
    this.#stopping = true;
    for (const connection of this.#open) connection.goAway();
  }

  terminate(): void {
    for (const connection of this.#open) connection.terminate();
  }

  [Symbol.dispose](): void {
    this.#pings[Symbol.dispose]();
    this.#messages[Symbol.dispose]();
  }

  async #accept(
    x: LiveExchange,
    options: AcceptOptions,
    asked: UpgradeRequest,
  ): Promise<LiveConnection> {
    const answer = new LiveResponseHead({ status: 101 }, "surface", true);
    try {
      await runHooks(x, responseHeaders, answer);
      if (x.hasEnded) throw new UpgradeFailed(undefined);
      checkFields(answer.fields);
    } catch (error) {
      x.streamFailed();
      throw error;
    }
    const { req } = asked;
    this.#accepting.set(req, { protocol: options.protocol, fields: answer.fields });
    const webSocket = this.#handshake(x, options.messageBytes, asked);
    x.record.status = 101;
    const connection = new LiveConnection(x, webSocket, req.socket, () => {
      this.#open.delete(connection);
    });
    this.#open.add(connection);
    this.#messages.add(connection.caller, connection, webSocket, req.socket);
    if (this.#stopping) queueMicrotask(() => connection.goAway());
    return connection;
  }

  /**
   * Completes the handshake. `ws` calls its callback either at once or never: not if it refuses the request, or if the
   * client has ended its side of the connection. In both cases this throws `UpgradeFailed`, so that the exchange ends.
   */
  #handshake(x: LiveExchange, messageBytes: number, asked: UpgradeRequest): WebSocket {
    const { req, res, socket, head } = asked;
    // From now on, the socket no longer belongs to an HTTP message.
    res.detachSocket(req.socket);
    let accepted: WebSocket | undefined;
    this.#server(messageBytes).handleUpgrade(req, socket, head, (webSocket) => {
      accepted = webSocket;
    });
    if (accepted !== undefined) return accepted;
    x.streamFailed();
    if (!socket.destroyed && socket.writable) {
      res.assignSocket(socket);
      throw new UpgradeFailed(invalidHandshake);
    }
    socket.destroy();
    x.onClose(false);
    throw new UpgradeFailed(undefined);
  }

  /** Returns a server per maximum message size, because `ws` has this limit in the options of the server. */
  #server(messageBytes: number): WebSocketServer {
    const known = this.#servers.get(messageBytes);
    if (known !== undefined) return known;
    const server = new WebSocketServer({
      noServer: true,
      clientTracking: false,
      // Compression does not shorten ciphertext, and compressing data next to secrets can reveal them by length.
      perMessageDeflate: false,
      ...messageLimits(messageBytes),
      handleProtocols: (_, req) => this.#accepting.get(req)?.protocol ?? false,
    });
    // With this listener, `ws` does not write its own refusal.
    server.on("wsClientError", () => {});
    server.on("headers", (lines, req) => {
      const { fields = [] } = this.#accepting.get(req) ?? {};
      for (let at = 0; at + 1 < fields.length; at += 2)
        lines.push(`${fields[at]}: ${fields[at + 1]}`);
    });
    this.#servers.set(messageBytes, server);
    return server;
  }
}

const invalidHandshake = refuse("GATEWAY_INVALID_PARAMS", {
  message: "the WebSocket handshake is invalid",
});

/** Throws for a name or value that HTTP does not allow, because `ws` writes the fields of steps unchecked. */
function checkFields(fields: readonly string[]): void {
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const name = fields[at] ?? "";
    validateHeaderName(name);
    validateHeaderValue(name, fields[at + 1] ?? "");
  }
}
