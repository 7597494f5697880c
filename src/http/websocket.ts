/**
 * WebSockets on routes with `websocket: true`: the handshake and the frames are `ws`'s, the backpressure, the deadlines
 * and the exchange are ours. An upgrade runs down its route like any request; until a surface accepts it, it can be
 * refused with an HTTP reply.
 */
import {
  validateHeaderName,
  validateHeaderValue,
  type IncomingMessage,
  type ServerResponse,
} from "node:http";
import type { Socket } from "node:net";
import { WebSocketServer, type WebSocket } from "ws";
import { refuse } from "../errors.ts";
import { responseHeaders } from "../pipeline/run/answer.ts";
import type { Upgrade } from "../pipeline/run/arrival.ts";
import type { LiveExchange } from "../pipeline/run/exchange.ts";
import { LiveResponseHead } from "../pipeline/run/response-head.ts";
import { ended } from "../pipeline/run/run.ts";
import { UpgradeFailed } from "../pipeline/run/upgrade-failed.ts";
import type { AcceptOptions, Clock } from "../plugin.ts";
import { LiveConnection } from "./connection.ts";
import { MessageWatch } from "./message-watch.ts";

/** A peer that has not answered a ping until the next one is gone (confidential-stream.md section 1.1). */
const pingMs = 20_000;

/** RFC 6455 section 4.1: 16 bytes in base64. */
const keyForm = /^[+/0-9A-Za-z]{22}==$/;

/** Whether a request asks for a WebSocket in the one version that there is; any other is a request like others. */
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

/** An upgrade as node:http hands it over. */
interface UpgradeRequest {
  readonly req: IncomingMessage;
  /** Writes a refusal. */
  readonly res: ServerResponse;
  readonly socket: Socket;
  /** Bytes that the client sent after the head of its request. */
  readonly head: Buffer;
}

/** All WebSockets of the listener. Dispose to stop the pings. */
export class WebSockets implements Disposable {
  readonly #open = new Set<LiveConnection>();
  readonly #servers = new Map<number, WebSocketServer>();
  /** What is to stand in the 101 of each request that is being accepted. */
  readonly #accepting = new WeakMap<
    IncomingMessage,
    { readonly protocol: string | undefined; readonly fields: readonly string[] }
  >();
  readonly #pings: Disposable;
  readonly #messages: MessageWatch;
  #stopping = false;

  /** `messageBytes`: maximum number of bytes that unfinished messages may hold together. */
  constructor(clock: Clock, messageBytes: number) {
    this.#messages = new MessageWatch(clock, messageBytes);
    this.#pings = clock.every(pingMs, () => {
      for (const connection of this.#open) connection.ping();
    });
  }

  upgrade(asked: UpgradeRequest): Upgrade {
    return { accept: (x, options) => this.#accept(x, options, asked) };
  }

  /** Tells every connection that the gateway stops. */
  goAway(): void {
    this.#stopping = true;
    for (const connection of this.#open) connection.goAway();
  }

  /** Cuts what is still open. */
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
      await responseHeaders(x, answer, 0);
      if (x.closed) throw new UpgradeFailed(undefined);
      checkFields(answer.fields);
    } catch (error) {
      // Nothing has been sent: the exchange can still be answered with a reply.
      x.streaming = false;
      throw error;
    }
    const { req } = asked;
    this.#accepting.set(req, { protocol: options.protocol, fields: answer.fields });
    const webSocket = this.#handshake(x, options.messageBytes, asked);
    x.sent.status = 101;
    const connection = new LiveConnection(x, webSocket, req.socket, () => {
      this.#open.delete(connection);
    });
    this.#open.add(connection);
    this.#messages.add(connection, webSocket, req.socket);
    if (this.#stopping) queueMicrotask(() => connection.goAway());
    return connection;
  }

  /**
   * Completes the handshake. `ws` calls its callback at once or never: it does not when it refuses the request, or when
   * the client has ended its side of the connection. Both throw `UpgradeFailed`, so that the exchange ends.
   */
  #handshake(x: LiveExchange, maxPayload: number, asked: UpgradeRequest): WebSocket {
    const { req, res, socket, head } = asked;
    // From here on the socket does not belong to an HTTP message.
    res.detachSocket(req.socket);
    let accepted: WebSocket | undefined;
    this.#server(maxPayload).handleUpgrade(req, socket, head, (webSocket) => {
      accepted = webSocket;
    });
    if (accepted !== undefined) return accepted;
    x.streaming = false;
    if (!socket.destroyed && socket.writable) {
      res.assignSocket(socket);
      throw new UpgradeFailed(invalidHandshake);
    }
    socket.destroy();
    ended(x, false);
    throw new UpgradeFailed(undefined);
  }

  /** `ws` has the limit of a message in the server's options. */
  #server(maxPayload: number): WebSocketServer {
    const known = this.#servers.get(maxPayload);
    if (known !== undefined) return known;
    const server = new WebSocketServer({
      noServer: true,
      clientTracking: false,
      // Compressed ciphertext is no shorter, and compressing beside secrets tells their length.
      perMessageDeflate: false,
      maxPayload,
      handleProtocols: (_, req) => this.#accepting.get(req)?.protocol ?? false,
    });
    // A listener keeps `ws` from writing a refusal of its own.
    server.on("wsClientError", () => {});
    server.on("headers", (lines, req) => {
      const { fields = [] } = this.#accepting.get(req) ?? {};
      for (let at = 0; at + 1 < fields.length; at += 2)
        lines.push(`${fields[at]}: ${fields[at + 1]}`);
    });
    this.#servers.set(maxPayload, server);
    return server;
  }
}

const invalidHandshake = refuse("GATEWAY_INVALID_PARAMS", {
  message: "the WebSocket handshake is invalid",
});

/** Throws for a name or value that HTTP does not allow: `ws` writes the fields of steps as they are. */
function checkFields(fields: readonly string[]): void {
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const name = fields[at] ?? "";
    validateHeaderName(name);
    validateHeaderValue(name, fields[at + 1] ?? "");
  }
}
