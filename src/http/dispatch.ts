/**
 * What the listener does with a request: finds its route in the current generation and runs it. Health, and messages
 * whose end is in doubt, are answered here without a route.
 */
import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { ServerConfig } from "../config/config.ts";
import { refuse } from "../errors.ts";
import type { Arrival, ClientRequest, Upgrade } from "../pipeline/run/arrival.ts";
import { LiveExchange, type Runtime } from "../pipeline/run/exchange.ts";
import type { Generation } from "../pipeline/load/generation.ts";
import { ExchangeResponse, type ClientResponse } from "../pipeline/run/response.ts";
import { run } from "../pipeline/run/run.ts";
import type { Clock } from "../plugin.ts";
import { framingFault, type FramingFault } from "./framing.ts";
import type { Readiness } from "./readiness.ts";
import { asksForWebSocket, WebSockets } from "./websocket.ts";

export type Handler = (req: IncomingMessage, res: ServerResponse) => void;

export interface DispatchOptions {
  readonly server: Pick<ServerConfig, "unfinishedBodyBytes">;
  readonly generation: Generation;
  readonly clock: Clock;
  readonly readiness: () => Readiness;
}

/** Which generation serves, and whether we are draining. */
export class Dispatch {
  running = 0;
  draining = false;
  onIdle: (() => void) | undefined;
  /** Fastify plugins listen for upgrades. */
  othersTakeUpgrades = false;
  readonly webSockets: WebSockets;
  #generation: Generation;
  #leave: (x: LiveExchange) => void;
  readonly #runtime: Runtime;
  readonly #readiness: () => Readiness;

  constructor(options: DispatchOptions, runtime: Runtime) {
    this.#runtime = runtime;
    this.webSockets = new WebSockets(options.clock, options.server.unfinishedBodyBytes);
    this.#readiness = options.readiness;
    this.#generation = options.generation;
    this.#leave = this.#leaver(options.generation);
  }

  /** Exchanges under way by route. Those of an old generation count only where the current one has the route, too. */
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
    this.#leave = this.#leaver(generation);
  }

  readonly handle: Handler = (req, res) => {
    const fault = framingFault(req);
    if (fault !== undefined) return refuseAndClose(req, res, fault);
    // The server makes every response with this class.
    this.serve(req, res as ExchangeResponse, req);
  };

  /** Serves a request of whose end there is no doubt. Called by sockets, so it never throws. */
  readonly serve = (req: ClientRequest, res: ClientResponse, body: Arrival["body"]): void => {
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

  /** Whether this request becomes a WebSocket, if its route lets it. */
  takesUpgrade(req: IncomingMessage): boolean {
    if (!asksForWebSocket(req) || framingFault(req) !== undefined) return false;
    const match = this.#generation.router.find("GET", locate(req).path);
    return match.kind === "route" && match.route.config.websocket;
  }

  /** node:http has let go of the socket: until a surface accepts, what is refused is written by a response of ours. */
  upgrade(req: IncomingMessage, socket: Socket, head: Buffer): void {
    // The server's own listener went with its parser; ours comes when the surface accepts.
    socket.on("error", () => socket.destroy());
    const res = new ExchangeResponse(req);
    res.shouldKeepAlive = false;
    res.assignSocket(socket);
    res.once("finish", () => socket.destroySoon());
    const upgrade = this.webSockets.upgrade({ req, res, socket, head });
    this.#run({ req, res, body: req }, locate(req), upgrade);
  }

  #run(
    { req, res, body }: Pick<Arrival, "req" | "res" | "body">,
    { target, path, query }: Place,
    upgrade: Upgrade | undefined,
  ): void {
    const match = this.#generation.router.find(req.method ?? "", path);
    const arrival: Arrival = {
      req,
      body,
      res,
      path,
      query,
      target,
      params: match.kind === "route" ? match.params : {},
      // Any other expectation was answered with 417; HTTP/1.0 has none.
      expectsContinue: req.headers.expect !== undefined && req.httpVersionMinor === 1,
      allow: match.kind === "wrongMethod" ? match.allow : undefined,
      upgrade,
    };
    const compiled = match.kind === "route" ? match.route : this.#generation.unmatched;
    const x = new LiveExchange(arrival, compiled, this.#runtime, this.#leave);
    this.#generation.enter();
    this.running++;
    compiled.stats.entered();
    run(x);
  }

  #leaver(generation: Generation): (x: LiveExchange) => void {
    return (x) => {
      generation.leave();
      this.running--;
      x.compiled.stats.left();
      if (this.running === 0) this.onIdle?.();
    };
  }

  #health(req: ClientRequest, res: ReplyTarget, path: string): void {
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

/** Where a request goes: its target in origin form, and the two parts of that. */
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

/** As much of a response as takes a whole answer. */
type ReplyTarget = Pick<ClientResponse, "writeHead" | "end">;

/** What the listener itself answers: no list of steps runs, so it names the request itself. */
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

/** decisions.md section 4: echoed when it is 1 to 128 visible ASCII characters. */
function requestId(req: ClientRequest): string {
  const given = req.headers["x-request-id"];
  return typeof given === "string" && /^[!-~]{1,128}$/.test(given) ? given : randomUUID();
}
