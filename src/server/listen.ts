/**
 * The public listener: takes requests off the wire, finds their route in the current generation and runs them.
 *
 * Routes run straight on node:http: Fastify's own routing costs about 4.6 µs a request. Where pipeline.yaml names
 * Fastify plugins, the same handler runs behind them instead (`fastify.ts`).
 */
import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { refuse } from "../errors.ts";
import { LiveExchange, type Arrival, type Runtime } from "../pipeline/exchange.ts";
import type { Generation } from "../pipeline/generation.ts";
import { bodyTimedOut, run } from "../pipeline/run.ts";
import { ExchangeResponse } from "../pipeline/response.ts";
import { openSink } from "../pipeline/sink.ts";
import type { ServerConfig } from "../config/config.ts";
import type { Clock, Log } from "../plugin.ts";
import { framingFault, type FramingFault } from "../stream/framing.ts";
import { addressReader, peerReader } from "./address.ts";
import { answerBadRequest } from "./bad-request.ts";
import { createBodyWatch } from "./body-watch.ts";
import { behindFastify, type Wrapped } from "./fastify.ts";
import type { Readiness } from "./readiness.ts";

export interface ListenerOptions {
  readonly server: ServerConfig;
  readonly generation: Generation;
  readonly clock: Clock;
  readonly log: Log;
  readonly readiness: () => Readiness;
}

export interface Listener {
  readonly host: string;
  readonly port: number;
  /** New exchanges run on `generation` from here on; those under way finish on theirs. */
  swap(generation: Generation): void;
  /** Exchanges under way. */
  readonly running: number;
  /** Answers close their connections from here on. */
  beginDrain(): void;
  /** Stops taking connections; resolves when every exchange has ended, at the latest after `ms`. */
  close(ms: number): Promise<void>;
}

type Handler = (req: IncomingMessage, res: ServerResponse) => void;

/** Binds the port; rejects with the system's error (EADDRINUSE, EACCES) when it cannot. */
export async function listen(options: ListenerOptions): Promise<Listener> {
  const { server: config, clock, log } = options;
  const bodyWatch = createBodyWatch(clock, config.bodyIdleMs, bodyTimedOut);
  const runtime: Runtime = {
    clock,
    log,
    addressOf: addressReader(config.trustProxy),
    peerOf: peerReader(config.trustProxy),
    openSink,
    bodyWatch,
    stallMs: config.bodyIdleMs,
  };
  const state = new State(options, runtime);
  const wrapped = await behindFastify(options.generation.config.fastify, state.handle, httpServer);
  const http = wrapped.server;
  // Like any other request: `100 Continue` is sent when somebody wants the body.
  http.on("checkContinue", (req, res) => http.emit("request", req, res));
  http.on("checkExpectation", (req: IncomingMessage, res: ServerResponse) =>
    sendReply(
      req,
      res,
      refuse("GATEWAY_INVALID_PARAMS", { status: 417, message: "unknown expectation" }),
    ),
  );
  http.on("clientError", answerBadRequest);
  await bind(http, config);
  return createListener(http, wrapped, state, { clock, log }, bodyWatch);

  function httpServer(handler: Handler): Server {
    return createServer(
      {
        ServerResponse: ExchangeResponse,
        headersTimeout: config.headersMs,
        // A body may take as long as it keeps moving: the body watch sees to that.
        requestTimeout: 0,
        keepAliveTimeout: config.keepAliveMs,
        connectionsCheckingInterval: Math.min(5_000, Math.max(10, config.headersMs / 2)),
      },
      handler,
    );
  }
}

/** The mutable half of the listener: which generation serves, and whether we are draining. */
class State {
  running = 0;
  draining = false;
  onIdle: (() => void) | undefined;
  #generation: Generation;
  #leave: (x: LiveExchange) => void;
  readonly #runtime: Runtime;
  readonly #readiness: () => Readiness;

  constructor(options: ListenerOptions, runtime: Runtime) {
    this.#runtime = runtime;
    this.#readiness = options.readiness;
    this.#generation = options.generation;
    this.#leave = this.#leaver(options.generation);
  }

  swap(generation: Generation): void {
    this.#generation = generation;
    this.#leave = this.#leaver(generation);
  }

  readonly handle: Handler = (req, res) => {
    const fault = framingFault(req);
    if (fault !== undefined) return refuseAndClose(req, res, fault);
    if (this.draining) res.shouldKeepAlive = false;
    const target = originForm(req.url ?? "/");
    const mark = target.indexOf("?");
    const path = mark === -1 ? target : target.slice(0, mark);
    if (path === "/healthz" || path === "/readyz") return this.#health(req, res, path);
    const query = mark === -1 ? "" : target.slice(mark + 1);
    const match = this.#generation.router.find(req.method ?? "", path);
    const arrival: Arrival = {
      req,
      // The server makes every response with this class.
      res: res as ExchangeResponse,
      path,
      query,
      target,
      params: match.kind === "route" ? match.params : {},
      // Any other expectation was answered with 417; HTTP/1.0 has none.
      expectsContinue: req.headers.expect !== undefined && req.httpVersionMinor === 1,
      allow: match.kind === "wrongMethod" ? match.allow : undefined,
    };
    const compiled = match.kind === "route" ? match.route : this.#generation.unmatched;
    this.#generation.enter();
    this.running++;
    run(new LiveExchange(arrival, compiled, this.#runtime, this.#leave));
  };

  #leaver(generation: Generation): (x: LiveExchange) => void {
    return () => {
      generation.leave();
      this.running--;
      if (this.running === 0) this.onIdle?.();
    };
  }

  #health(req: IncomingMessage, res: ServerResponse, path: string): void {
    if (req.method !== "GET" && req.method !== "HEAD") {
      return sendReply(
        req,
        res,
        refuse("GATEWAY_INVALID_PARAMS", {
          status: 405,
          message: "method not allowed",
          headers: ["allow", "GET, HEAD"],
        }),
      );
    }
    const { ready, checks } = path === "/healthz" ? { ready: true, checks: {} } : this.#readiness();
    const body = JSON.stringify({ status: ready ? "ok" : "unavailable", checks });
    sendReply(req, res, {
      status: ready ? 200 : 503,
      headers: ["content-type", "application/json"],
      body,
    });
  }
}

/** Proxies send absolute-form targets (RFC 9112 section 3.2.2): the path within is what is routed. */
function originForm(target: string): string {
  if (target.startsWith("/")) return target;
  const scheme = /^https?:\/\/[^/?#]*/i.exec(target);
  if (scheme === null) return target;
  const rest = target.slice(scheme[0].length);
  return rest.startsWith("/") ? rest : `/${rest}`;
}

/** No step runs for a message whose end is in doubt, and nothing after it on its connection is read. */
function refuseAndClose(req: IncomingMessage, res: ServerResponse, fault: FramingFault): void {
  const headers = ["connection", "close"];
  sendReply(req, res, refuse("GATEWAY_INVALID_PARAMS", { ...fault, headers }));
}

/** What the listener itself answers: no list of steps runs, so it names the request itself. */
function sendReply(
  req: IncomingMessage,
  res: ServerResponse,
  reply: { status: number; headers?: readonly string[]; body?: string | Uint8Array },
): void {
  const body = reply.body ?? "";
  res.writeHead(reply.status, [
    ...(reply.headers ?? []),
    "x-request-id",
    requestId(req),
    "content-length",
    String(Buffer.byteLength(body)),
  ]);
  res.end(body);
}

/** decisions.md section 4: echoed when it is 1 to 128 visible ASCII characters. */
function requestId(req: IncomingMessage): string {
  const given = req.headers["x-request-id"];
  return typeof given === "string" && /^[!-~]{1,128}$/.test(given) ? given : randomUUID();
}

async function bind(http: Server, config: ServerConfig): Promise<void> {
  const { promise, resolve, reject: fail } = Promise.withResolvers<void>();
  http.once("error", fail);
  http.listen({ host: config.host, port: config.port, backlog: 4096 }, resolve);
  await promise;
  http.off("error", fail);
}

/** How often connections that fell idle while draining are closed. */
const drainSweepMs = 50;

function createListener(
  http: Server,
  wrapped: Wrapped,
  state: State,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
  bodyWatch: Disposable,
): Listener {
  // A listening TCP server has an AddressInfo; only pipes have a string.
  const { address, port } = http.address() as AddressInfo;
  return {
    host: address,
    port,
    swap: (generation) => state.swap(generation),
    get running() {
      return state.running;
    },
    beginDrain() {
      state.draining = true;
    },
    async close(ms) {
      state.draining = true;
      const closed = new Promise<void>((resolve) => http.close(() => resolve()));
      using _sweep = clock.every(drainSweepMs, () => http.closeIdleConnections());
      using _deadline = clock.after(ms, () => http.closeAllConnections());
      http.closeIdleConnections();
      await closed;
      await idle(state, clock, log);
      bodyWatch[Symbol.dispose]();
      await wrapped.close();
    },
  };
}

/** How long surfaces that do not heed their signal are waited for: the charges of the others must be kept. */
const stubbornMs = 5_000;

/** Connections are gone; surfaces may still be finishing. */
async function idle(state: State, clock: Clock, log: Log): Promise<void> {
  if (state.running === 0) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  state.onIdle = resolve;
  using _deadline = clock.after(stubbornMs, () => {
    log.error({ running: state.running }, "surfaces did not end: stopping without them");
    resolve();
  });
  await promise;
}
