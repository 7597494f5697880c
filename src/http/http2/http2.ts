/**
 * HTTP/2 on the listener with TLS, for clients that choose it in the TLS handshake (ALPN). Each stream is one exchange.
 * Clients that choose HTTP/1.1, and WebSockets, are served by node:http.
 */
import type { EventEmitter } from "node:events";
import { maxHeaderSize } from "node:http";
import {
  constants,
  performServerHandshake,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { TLSSocket } from "node:tls";
import { systemClock } from "../../base/clock.ts";
import type { ServerConfig } from "../../config/config.ts";
import { refuse } from "../../base/errors.ts";
import { runGuarded } from "../../base/guard.ts";
import type { ClientSocket } from "../../message/request-head.ts";
import type { Log } from "../../plugin.ts";
import { sendReply, unknownExpectation, type Dispatcher } from "../dispatch.ts";
import { framingFault, type FramingFault } from "../framing.ts";
import { Http2Body, http2Request, type Http2Request } from "./request.ts";
import { Http2Response } from "./response.ts";

const maxStreams = 100;
/** Bytes of all request bodies of one connection that may wait to be read. One body may have 64 KiB. */
const connectionWindowBytes = 1024 * 1024;
/**
 * Limits of Node and nghttp2. A client that exceeds one of them loses its connection. A reset costs the client one frame
 * and the gateway a started request, so their number is limited ("rapid reset", CVE-2023-44487).
 */
const limits = {
  streamResetBurst: 200,
  streamResetRate: 20,
  maxSessionRejectedStreams: 100,
  maxSessionInvalidFrames: 100,
  maxHeaderListPairs: 1_000,
  settings: {
    maxConcurrentStreams: maxStreams,
    enablePush: false,
    maxHeaderListSize: maxHeaderSize,
  },
};

export interface Http2 extends Disposable {
  goAway(): void;
  closeIdle(): void;
  closeAll(): void;
}

const tooLarge = { status: 431, message: "the request head is too large" };
const noTunnels = { status: 501, message: "the method CONNECT is not supported" };
const noBody = Buffer.alloc(0);

type SecureListener = (socket: TLSSocket) => void;

interface Session {
  readonly session: ServerHttp2Session;
  readonly socket: TLSSocket;
  streams: number;
  isUsed: boolean;
  /** Monotonic time since which no stream is open. */
  idleSince: number;
}

export interface Http2Deps {
  readonly dispatch: Dispatcher;
  readonly config: ServerConfig;
  readonly log: Log;
}

/** Serves the connections of `https` on which the client chose HTTP/2. `https` must offer it in its ALPNProtocols. */
export function openHttp2(https: EventEmitter, deps: Http2Deps): Http2 {
  const { config, log } = deps;
  const sessions = new Set<Session>();
  // Listeners of `secureConnection` have the signature of this event.
  const http1 = https.listeners("secureConnection") as SecureListener[];
  https.removeAllListeners("secureConnection");
  https.on("secureConnection", (socket: TLSSocket) => {
    if (socket.alpnProtocol === "h2") {
      runGuarded(open, () => socket.destroy(), socket);
    } else {
      for (const listener of http1) listener.call(https, socket);
    }
  });

  function open(socket: TLSSocket): void {
    const session = performServerHandshake(socket, limits);
    const idleSince = systemClock.monotonic();
    const entry: Session = { session, socket, streams: 0, isUsed: false, idleSince };
    sessions.add(entry);
    session.setLocalWindowSize(connectionWindowBytes);
    // A broken connection closes its streams, which end their exchanges.
    session.on("error", () => socket.destroy());
    session.once("close", () => sessions.delete(entry));
    // The address is read now, because the socket forgets it when it closes.
    const { remoteAddress } = socket;
    session.on("stream", (stream, given, flags, rawHeaders) => {
      stream.on("error", () => {});
      entry.streams++;
      entry.isUsed = true;
      stream.once("close", () => {
        entry.streams--;
        entry.idleSince = systemClock.monotonic();
      });
      runGuarded(
        () => {
          const from = { remoteAddress, encrypted: true, bytesRead: 0 };
          serve(deps.dispatch, { stream, given, flags, rawHeaders }, from);
        },
        (error) => {
          log.error({ err: error }, "a request over HTTP/2 failed");
          stream.destroy();
        },
      );
    });
  }

  const sweepMs = Math.min(1_000, Math.max(10, Math.min(config.headersMs, config.keepAliveMs) / 2));
  const sweep = systemClock.every(sweepMs, () => {
    const now = systemClock.monotonic();
    for (const { session, socket, streams, isUsed, idleSince } of sessions) {
      if (streams > 0) continue;
      const idleMs = now - idleSince;
      if (idleMs < (isUsed ? config.keepAliveMs : config.headersMs)) continue;
      // Idle for the second time: the client does not close its side.
      if (session.closed) socket.destroy();
      else session.close();
    }
  });
  return {
    goAway() {
      // The greatest id: requests that are on their way are still served (RFC 9113 section 6.8).
      for (const { session } of sessions) {
        if (!session.closed) session.goaway(constants.NGHTTP2_NO_ERROR, 2 ** 31 - 1);
      }
    },
    closeIdle() {
      for (const { session, streams } of sessions) if (streams === 0) session.destroy();
    },
    closeAll() {
      for (const { session, socket } of sessions) {
        session.destroy();
        socket.destroy();
      }
    },
    [Symbol.dispose]: () => sweep[Symbol.dispose](),
  };
}

interface Arrived {
  readonly stream: ServerHttp2Stream;
  readonly given: IncomingHttpHeaders;
  readonly flags: number;
  readonly rawHeaders: readonly string[];
}

function serve(
  dispatch: Dispatcher,
  { stream, given, flags, rawHeaders }: Arrived,
  from: { -readonly [Name in keyof ClientSocket]: ClientSocket[Name] },
): void {
  const hasBody = (flags & constants.NGHTTP2_FLAG_END_STREAM) === 0;
  const req = http2Request(given, rawHeaders, hasBody, from);
  const res = new Http2Response(stream, () => !hasBody || stream.readableEnded);
  const fault = headFault(req);
  if (fault !== undefined) {
    return sendReply(req, res, refuse("GATEWAY_INVALID_PARAMS", fault));
  }
  const { expect } = req.headers;
  if (expect !== undefined && expect.toLowerCase() !== "100-continue") {
    return sendReply(req, res, unknownExpectation);
  }
  const count = (bytes: number): void => {
    from.bytesRead += bytes;
  };
  dispatch.serve(req, res, hasBody ? new Http2Body(stream, req.headers, count) : noBody);
}

function headFault(req: Http2Request): FramingFault | undefined {
  if (req.method === "CONNECT") return noTunnels;
  // A client learns the maximum from the settings, but its first requests may be older than these.
  let bytes = (req.url ?? "").length;
  for (const text of req.rawHeaders) bytes += text.length;
  return bytes > maxHeaderSize ? tooLarge : framingFault(req);
}
