/**
 * WebSockets on routes with `websocket: true`: the handshake and the frames are `ws`'s, the backpressure, the deadlines
 * and the exchange are ours. An upgrade runs down its route like any request; until a surface accepts it, it can be
 * refused with an HTTP reply.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { WebSocketServer, type WebSocket } from "ws";
import { responseHeaders } from "../pipeline/answer.ts";
import type { Upgrade } from "../pipeline/arrival.ts";
import type { LiveExchange } from "../pipeline/exchange.ts";
import { LiveResponseHead } from "../pipeline/response-head.ts";
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
interface Asked {
  readonly req: IncomingMessage;
  /** What a refusal is written with. */
  readonly res: ServerResponse;
  readonly socket: Duplex;
  /** What came behind the request's own head. */
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

  upgrade(asked: Asked): Upgrade {
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
    { req, res, socket, head }: Asked,
  ): Promise<LiveConnection> {
    const answer = new LiveResponseHead({ status: 101 }, "surface", true);
    try {
      await responseHeaders(x, answer, 0);
      if (x.closed) throw new Error("the client left before its upgrade was accepted");
    } catch (error) {
      // Nothing has been sent: the exchange can still be answered with a reply.
      x.streaming = false;
      throw error;
    }
    // From here on the socket is no HTTP message's.
    res.detachSocket(req.socket);
    this.#accepting.set(req, { protocol: options.protocol, fields: answer.fields });
    const webSocket = await new Promise<WebSocket>((resolve) => {
      this.#server(options.messageBytes).handleUpgrade(req, socket, head, resolve);
    });
    x.sent.status = 101;
    const connection = new LiveConnection(x, webSocket, req.socket, () => {
      this.#open.delete(connection);
    });
    this.#open.add(connection);
    this.#messages.add(connection, webSocket, req.socket);
    if (this.#stopping) queueMicrotask(() => connection.goAway());
    return connection;
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
    server.on("headers", (lines, req) => {
      const { fields = [] } = this.#accepting.get(req) ?? {};
      for (let at = 0; at + 1 < fields.length; at += 2)
        lines.push(`${fields[at]}: ${fields[at + 1]}`);
    });
    this.#servers.set(maxPayload, server);
    return server;
  }
}
