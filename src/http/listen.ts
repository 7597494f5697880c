/**
 * Routes run directly on node:http, because Fastify's own routing costs about 4.6 µs per request. If pipeline.yaml
 * contains Fastify plugins, the same handler runs after their hooks (`withFastify`).
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer, Server as TlsServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { Closer } from "../pipeline/load/closer.ts";
import type { ExchangeObserver } from "../pipeline/observe/record.ts";
import type { Generation } from "../pipeline/load/generation.ts";
import { late, withinLimit } from "../base/time-limit.ts";
import type { PluginUse, ServerConfig } from "../config/config.ts";
import type { Clock, Log, Metrics, Threads } from "../plugin.ts";
import { answerBadRequest } from "./bad-request.ts";
import { bind } from "./bind.ts";
import { Dispatcher, sendReply, unknownExpectation, type Handler } from "./dispatch.ts";
import type { HeldBytes } from "../memory/held-bytes.ts";
import { SharedCount } from "../memory/shared-count.ts";
import { openFastPath } from "./fast-path/fast-path.ts";
import { ExchangeResponse } from "./node-response.ts";
import type { Readiness } from "./readiness.ts";
import { openRuntime } from "./runtime.ts";
import { StartError } from "../start-error.ts";
import { followTls, readTls, tlsMetrics, type TlsMaterial } from "./tls.ts";

export interface ListenerOptions {
  readonly server: ServerConfig;
  readonly generation: Generation;
  readonly clock: Clock;
  readonly log: Log;
  readonly closer: Closer;
  readonly metrics: Metrics;
  readonly held: HeldBytes;
  /** Set if other threads of the process listen on the same port. */
  readonly threads?: Threads | undefined;
  readonly readiness: () => Readiness;
  readonly observers: Iterable<ExchangeObserver>;
}

export interface Listener {
  readonly host: string;
  readonly port: number;
  /** Starts new exchanges on `generation`. Running exchanges finish on their own generation. */
  swap(generation: Generation): void;
  readonly running: number;
  /** From now on, connections are closed after their answers. */
  beginDrain(): void;
  /** Stops accepting connections. Resolves when every exchange has ended, at the latest after `ms`. */
  close(ms: number): Promise<void>;
}

const backlog = 4096;

/** Rejects with a `ListenError` if the system refuses the port. */
export async function listen(options: ListenerOptions): Promise<Listener> {
  const { server: config, log } = options;
  const runtime = openRuntime(options);
  const dispatch = new Dispatcher(options, runtime);
  const tls = config.tls === undefined ? undefined : readTls(config.tls);
  const { fastify } = options.generation.config;
  // Fastify plugins need the objects of node:http.
  const offersHttp2 = tls !== undefined && fastify.length === 0;
  const alpn = { ALPNProtocols: offersHttp2 ? ["h2", "http/1.1"] : ["http/1.1"] };
  const wrapped = await withFastify(
    fastify,
    dispatch.handle,
    (handler) => httpServer(handler, dispatch, config, tls && { ...tls, ...alpn }),
    log,
  );
  const http = wrapped.server;
  // Handled like any other request. `100 Continue` is sent when the body is read.
  http.on("checkContinue", (req, res) => http.emit("request", req, res));
  http.on("checkExpectation", (req: IncomingMessage, res: ServerResponse) =>
    sendReply(req, res, unknownExpectation),
  );
  // Without a completed handshake, no answer can be sent. Bytes that wait for the handshake would be written at the same
  // time as those of HTTP/2, and Node would abort the process. This listener runs before the one that Node adds.
  http.prependListener("tlsClientError", (_error: Error, socket: Socket) => socket.destroy());
  http.on("clientError", answerBadRequest);
  const countRefusal = refusedConnections(config.connections, options);
  http.maxConnections = config.connections;
  http.on("drop", countRefusal);
  tlsMetrics(options.metrics);
  // Without this, node:http drops the fields after the 2,000th, and a repeated field among them would be missed. The
  // size of the head is limited separately.
  http.maxHeadersCount = 0;
  const upgraded = takeUpgrades(http, dispatch, log);
  // Fastify plugins need the objects of node:http, and the fast path reads sockets without TLS.
  const usesFastPath = config.fastPath && fastify.length === 0 && tls === undefined;
  const fastPath = usesFastPath ? openFastPath(http, dispatch.serve, config) : undefined;
  const http2 =
    http instanceof TlsServer && offersHttp2
      ? (await import("./http2/http2.ts")).openHttp2(http, { dispatch, config, log })
      : undefined;
  if (options.threads !== undefined) {
    const open = SharedCount.open(options.threads, openConnections);
    limitTogether(http, config.connections, open, countRefusal);
  }
  const reusePort = options.threads !== undefined;
  await bind(http, { section: "server", ...config, reusePort }, backlog);
  const cutAll = (): void => {
    http.closeAllConnections();
    fastPath?.closeAll();
    http2?.closeAll();
    dispatch.webSockets.terminate();
    // Upgrades that no surface has accepted yet, and upgrades of Fastify plugins.
    for (const socket of upgraded) socket.destroy();
  };
  const closeIdle = (): void => {
    http.closeIdleConnections();
    fastPath?.closeIdle();
    http2?.closeIdle();
  };
  const timers: Disposable[] = [runtime, dispatch.webSockets];
  if (fastPath !== undefined) timers.push(fastPath);
  if (http2 !== undefined) timers.push(http2);
  if (config.tls !== undefined && tls !== undefined && http instanceof TlsServer) {
    timers.push(followTls(http, config.tls, tls, options));
  }
  const goAway = (): void => {
    dispatch.draining = true;
    dispatch.webSockets.goAway();
    http2?.goAway();
  };
  return createListener({ ...options, http, wrapped, dispatch, goAway, cutAll, closeIdle, timers });
}

interface WrappedServer {
  readonly server: Server;
  close(): Promise<void>;
}

/**
 * Creates the server. Without Fastify plugins, `handle` is its request listener. With them, every request passes
 * Fastify's hooks first, and the headers that they set are kept. A plugin that answers (`@fastify/static`) answers
 * before any route. Payload hooks (`onSend`) do not see streamed answers, because the pipeline writes to the socket
 * itself. Throws StartError if a plugin cannot be registered.
 */
async function withFastify(
  uses: readonly PluginUse[],
  handle: Handler,
  create: (handler: Handler) => Server,
  log: Log,
): Promise<WrappedServer> {
  if (uses.length === 0) return { server: create(handle), close: async () => {} };
  // Fastify is large, so it is only loaded if it is used.
  const { openFastify, registrationFault } = await import("../pipeline/load/fastify-app.ts");
  const opened = await openFastify({ uses, handle, createServer: create, log });
  if ("failed" in opened) throw new StartError([registrationFault(opened.failed, opened.error)]);
  const { app } = opened;
  return { server: app.server, close: () => app.close() };
}

function httpServer(
  handler: Handler,
  dispatch: Dispatcher,
  config: ServerConfig,
  tls: (TlsMaterial & { readonly ALPNProtocols: string[] }) | undefined,
): Server {
  const options = {
    ServerResponse: ExchangeResponse,
    // The Upgrade field of any other request is ignored (RFC 9110 section 7.8).
    shouldUpgradeCallback: (req: IncomingMessage) =>
      dispatch.takesUpgrade(req) || dispatch.hasOtherUpgradeListeners,
    headersTimeout: config.headersMs,
    // The body watch limits the time of bodies.
    requestTimeout: 0,
    keepAliveTimeout: config.keepAliveMs,
    connectionsCheckingInterval: Math.min(5_000, Math.max(10, config.headersMs / 2)),
  };
  if (tls === undefined) return createServer(options, handler);
  return createTlsServer({ ...options, ...tls, handshakeTimeout: config.headersMs }, handler);
}

/** Minimum time between two log lines about refused connections, of which there can be thousands per second. */
const refusalLogMs = 60_000;

export const openConnections = "gateway: open connections";

/** Closes the connections that a thread accepts although all threads together have the maximum number. */
function limitTogether(
  http: Server,
  connections: number,
  open: SharedCount,
  refused: () => void,
): void {
  // Listeners of `connection` have the signature of this event.
  const accept = http.listeners("connection") as ((socket: Socket) => void)[];
  http.removeAllListeners("connection");
  http.on("connection", (socket: Socket) => {
    if (!open.tryEnter(connections)) {
      socket.destroy();
      return refused();
    }
    socket.once("close", () => open.add(-1));
    for (const listener of accept) listener.call(http, socket);
  });
}

function refusedConnections(
  connections: number,
  { clock, log, metrics }: Pick<ListenerOptions, "clock" | "log" | "metrics">,
): () => void {
  const refused = metrics
    .counter(
      "sluice_connections_refused_total",
      "Connections that were closed at once because the maximum number (`server.connections`) was open.",
    )
    .with({});
  let unlogged = 0;
  let quietUntil = -Infinity;
  return () => {
    refused.add(1);
    unlogged++;
    const now = clock.monotonic();
    if (now < quietUntil) return;
    quietUntil = now + refusalLogMs;
    log.warn(
      { connections, refused: unlogged },
      "connections are refused, because the maximum number is open (server.connections)",
    );
    unlogged = 0;
  };
}

type OnUpgrade = (req: IncomingMessage, socket: Socket, head: Buffer) => void;

/**
 * Handles upgrades of the gateway's routes and passes other upgrades to the listeners of Fastify plugins
 * (`@fastify/http-proxy` with `websocket`). One listener replaces them, because two would both use the socket. Returns
 * the open sockets of all upgrades, which node:http does not count among its connections.
 */
function takeUpgrades(http: Server, dispatch: Dispatcher, log: Log): ReadonlySet<Socket> {
  const open = new Set<Socket>();
  // Listeners of `upgrade` have the signature of this event.
  const others = http.listeners("upgrade") as OnUpgrade[];
  http.removeAllListeners("upgrade");
  dispatch.hasOtherUpgradeListeners = others.length > 0;
  http.on("upgrade", (req: IncomingMessage, socket: Socket, head: Buffer) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
    try {
      if (dispatch.takesUpgrade(req)) return dispatch.upgrade(req, socket, head);
      for (const listener of others) listener.call(http, req, socket, head);
    } catch (error) {
      log.error({ err: error }, "an upgrade failed");
      socket.destroy();
    }
  });
  return open;
}

const drainSweepMs = 50;

interface ListenerDeps extends Pick<ListenerOptions, "clock" | "log" | "closer"> {
  readonly http: Server;
  readonly wrapped: WrappedServer;
  readonly dispatch: Dispatcher;
  readonly goAway: () => void;
  readonly cutAll: () => void;
  readonly closeIdle: () => void;
  readonly timers: readonly Disposable[];
}

function createListener(deps: ListenerDeps): Listener {
  const { http, dispatch } = deps;
  // A listening TCP server has an AddressInfo. Only pipes have a string.
  const { address, port } = http.address() as AddressInfo;
  let closing: Promise<void> | undefined;
  return {
    host: address,
    port,
    swap: (generation) => dispatch.swap(generation),
    get running() {
      return dispatch.running;
    },
    beginDrain: deps.goAway,
    close(ms) {
      closing ??= closeListener(deps, ms);
      return closing;
    },
  };
}

async function closeListener(deps: ListenerDeps, ms: number): Promise<void> {
  const { http, wrapped, dispatch, clock, log, closer, goAway, cutAll, closeIdle, timers } = deps;
  goAway();
  const closed = new Promise<void>((resolve) => http.close(() => resolve()));
  const deadline = clock.monotonic() + ms;
  using _sweep = clock.every(drainSweepMs, closeIdle);
  closeIdle();
  if ((await withinLimit(closed, ms, clock)) === late) {
    log.warn({ requests: dispatch.running }, "the drain takes too long; connections are cut");
    cutAll();
  }
  await closer.close("connections", () => closed);
  await waitForSurfaces(deps, Math.max(minSurfaceMs, deadline - clock.monotonic()));
  for (const timer of timers) timer[Symbol.dispose]();
  await closer.close("Fastify plugins", () => wrapped.close());
}

/** Minimum time for surfaces to finish after their connections were closed, so that their exchanges settle. */
const minSurfaceMs = 3_000;

/** The connections are closed, but surfaces may still be finishing, such as a tool call whose client has left. */
async function waitForSurfaces(
  { dispatch, clock, log, closer }: ListenerDeps,
  ms: number,
): Promise<void> {
  if (dispatch.running === 0) return;
  const { promise: idle, resolve } = Promise.withResolvers<void>();
  dispatch.onIdle = resolve;
  if ((await withinLimit(idle, ms, clock)) !== late) return;
  const { running, runningByRoute: routes } = dispatch;
  log.error({ running, routes }, "some exchanges did not end in time; the gateway stops anyway");
  closer.shortenLimit();
}
