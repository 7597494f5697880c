/** Health checks and messages with ambiguous framing are answered here, without a route. */
import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { isRequestId } from "../base/request-id.ts";
import { refuse } from "../base/errors.ts";
import type { Generation } from "../pipeline/load/generation.ts";
import { methodNotAllowed } from "../pipeline/load/router.ts";
import type { ClientResponse } from "../message/client-response.ts";
import { LiveExchange } from "../pipeline/run/exchange.ts";
import type { Arrival, Runtime, Upgrade } from "../pipeline/run/runtime.ts";
import type { ClientRequest } from "../message/request-head.ts";
import { run } from "../pipeline/run/run.ts";
import type { Clock } from "../plugin.ts";
import { responseOn } from "./bad-request.ts";
import { ExchangeResponse } from "./node-response.ts";
import { framingFault, type FramingFault } from "./framing.ts";
import { alive, healthAnswer, type Readiness } from "./readiness.ts";
import { asksForWebSocket, WebSockets } from "./websocket.ts";

export type Handler = (req: IncomingMessage, res: ServerResponse) => void;

export interface DispatchOptions {
  readonly generation: Generation;
  readonly clock: Clock;
  readonly readiness: () => Readiness;
}

export class Dispatcher {
  running = 0;
  draining = false;
  onIdle: (() => void) | undefined;
  /** True if Fastify plugins listen for upgrades. */
  hasOtherUpgradeListeners = false;
  readonly webSockets: WebSockets;
  #generation: Generation;
  #leave: (x: LiveExchange) => void;
  readonly #runtime: Runtime<LiveExchange>;
  readonly #readiness: () => Readiness;

  constructor(options: DispatchOptions, runtime: Runtime<LiveExchange>) {
    this.#runtime = runtime;
    this.webSockets = new WebSockets(options.clock, runtime.held);
    this.#readiness = options.readiness;
    this.#generation = options.generation;
    this.#leave = this.#leaveFor(options.generation);
  }

  /** Running exchanges by route. Those of an old generation are counted only if the current one has the same route. */
  get runningByRoute(): Readonly<Record<string, number>> {
    const { routes, unmatched } = this.#generation;
    const counts: Record<string, number> = {};
    for (const { route, stats } of [...routes, unmatched]) {
      if (stats.running !== 0) counts[route.path] = stats.running;
    }
    return counts;
  }

  swap(generation: Generation): void {
    this.#generation = generation;
    this.#leave = this.#leaveFor(generation);
  }

  readonly handle: Handler = (req, res) => {
    const fault = framingFault(req);
    if (fault !== undefined) return refuseAndClose(req, res, fault);
    // The server creates every response with this class.
    this.serve(req, res as ExchangeResponse, req);
  };

  /** Serves a request with unambiguous framing. It never throws, because sockets call it. */
  readonly serve = (
    req: ClientRequest,
    res: ClientResponse,
    body: Arrival<LiveExchange>["body"],
  ): void => {
    if (this.draining) res.shouldKeepAlive = false;
    try {
      const place = locate(req);
      const { path } = place;
      if (path === "/healthz" || path === "/readyz") return this.#health(req, res, path);
      this.#run({ req, res, body }, place, undefined);
    } catch (error) {
      this.#runtime.log.error({ err: error }, "a request failed");
      res.destroy();
    }
  };

  takesUpgrade(req: IncomingMessage): boolean {
    if (!asksForWebSocket(req) || framingFault(req) !== undefined) return false;
    // An earlier request on the connection has no answer yet, which would be lost.
    if (responseOn(req.socket) !== undefined) return false;
    const match = this.#generation.router.find("GET", locate(req).path);
    return match.kind === "route" && match.route.config.websocket;
  }

  /** Runs an upgrade. node:http has released the socket, so refusals are written by a response that is created here. */
  upgrade(req: IncomingMessage, socket: Socket, head: Buffer): void {
    // node:http has removed its own listener. The WebSocket's listener is added when the surface accepts.
    socket.on("error", () => socket.destroy());
    const res = new ExchangeResponse(req);
    res.shouldKeepAlive = false;
    res.assignSocket(socket);
    res.once("finish", () => socket.destroySoon());
    const upgrade = this.webSockets.upgrade({ req, res, socket, head });
    this.#run({ req, res, body: req }, locate(req), upgrade);
  }

  #run(
    { req, res, body }: Pick<Arrival<LiveExchange>, "req" | "res" | "body">,
    { target, path, query }: Place,
    upgrade: Upgrade<LiveExchange> | undefined,
  ): void {
    const match = this.#generation.router.find(req.method ?? "", path);
    const received: Arrival<LiveExchange> = {
      req,
      body,
      res,
      path,
      query,
      target,
      params: match.kind === "route" ? match.params : {},
      // Any other expectation was answered with 417. HTTP/1.0 has no expectations.
      expectsContinue: req.headers.expect !== undefined && req.httpVersionMinor === 1,
      allow: match.kind === "wrongMethod" ? match.allow : undefined,
      upgrade,
    };
    const compiled = match.kind === "route" ? match.route : this.#generation.unmatched;
    const arrival = this.#generation.withoutCredential(received, compiled.config);
    const x = new LiveExchange(arrival, compiled, this.#runtime, this.#leave);
    this.#generation.enter();
    this.running++;
    compiled.stats.entered();
    run(x);
  }

  #leaveFor(generation: Generation): (x: LiveExchange) => void {
    return (x) => {
      generation.leave();
      this.running--;
      x.compiled.stats.left();
      if (this.running === 0) this.onIdle?.();
    };
  }

  #health(req: ClientRequest, res: ReplyTarget, path: string): void {
    if (req.method !== "GET" && req.method !== "HEAD") {
      return sendReply(req, res, methodNotAllowed("GET, HEAD"));
    }
    const answer = healthAnswer(path === "/healthz" ? alive : this.#readiness());
    sendReply(req, res, { ...answer, headers: ["content-type", "application/json"] });
  }
}

interface Place {
  readonly target: string;
  readonly path: string;
  readonly query: string;
}

function locate(req: ClientRequest): Place {
  const target = originForm(req.url ?? "/");
  const mark = target.indexOf("?");
  return mark === -1
    ? { target, path: target, query: "" }
    : { target, path: target.slice(0, mark), query: target.slice(mark + 1) };
}

/** Converts an absolute-form target, which proxies send (RFC 9112 section 3.2.2), to origin form. */
function originForm(target: string): string {
  if (target.startsWith("/")) return target;
  const scheme = /^https?:\/\/[^/?#]*/i.exec(target);
  if (scheme === null) return target;
  const rest = target.slice(scheme[0].length);
  return rest.startsWith("/") ? rest : `/${rest}`;
}

function refuseAndClose(req: IncomingMessage, res: ServerResponse, fault: FramingFault): void {
  const headers = ["connection", "close"];
  sendReply(req, res, refuse("GATEWAY_INVALID_PARAMS", { ...fault, headers }));
}

export const unknownExpectation = refuse("GATEWAY_INVALID_PARAMS", {
  status: 417,
  message: "unknown expectation",
});

type ReplyTarget = Pick<ClientResponse, "writeHead" | "end">;

/** Sends an answer of the listener itself. No steps run, so the request id is set here. */
export function sendReply(
  req: ClientRequest,
  res: ReplyTarget,
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
  res.end(body, "utf8");
}

function requestId(req: ClientRequest): string {
  const given = req.headers["x-request-id"];
  return isRequestId(given) ? given : randomUUID();
}
