/**
 * The admin listener: metrics, the loaded pipeline, health and the pages of services, such as the dashboard. Everything
 * except those pages is served without a key, and shows facts that clients must not know (names of upstreams, routes,
 * load). The listener must therefore be on loopback or on a private network, never on the internet.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { isIP, type AddressInfo } from "node:net";
import type { RenderedMetrics } from "../base/metrics.ts";
import { methodNotAllowed } from "../pipeline/load/router.ts";
import type { FoundExchanges, Log, Reply, ServiceHooks } from "../plugin.ts";
import { runGuarded } from "../base/guard.ts";
import { addressReader } from "../message/address.ts";
import { authorityOf, bind } from "./bind.ts";
import { alive, healthAnswer, type Readiness } from "./readiness.ts";
import { refuse, type GatewayCode } from "../base/errors.ts";

export interface AdminOptions {
  readonly host: string;
  readonly port: number;
  /** Host names that /metrics, /pipelines and /explain accept, in addition to IP addresses and localhost. */
  readonly hosts: readonly string[];
  readonly trustProxy: readonly string[];
  readonly metrics: Pick<RenderedMetrics, "render" | "contentType">;
  readonly pipelines: () => unknown;
  /** Finds the exchanges with a request id, on all gateways that use the same database. Never rejects. */
  readonly explain: (requestId: string) => Promise<FoundExchanges>;
  readonly ready: () => Readiness;
  /** Returns the running service with this name. It answers the requests below `/<name>` if it has `admin`. */
  readonly service: (name: string) => Pick<ServiceHooks<unknown>, "admin"> | undefined;
  readonly log: Log;
}

export interface Admin {
  readonly url: string;
  close(): Promise<void>;
}

const backlog = 511;
/** Scrapers often ask once per minute, and keep their connection until then. */
const keepAliveMs = 72_000;

/** Rejects with a `ListenError` if the system refuses the address. */
export async function startAdmin(options: AdminOptions): Promise<Admin> {
  const { host, port, log } = options;
  const handlers = handlersOf(options);
  const deps = { ...options, handlers, addressOf: addressReader(options.trustProxy) };
  const http = createServer({ keepAliveTimeout: keepAliveMs }, (request, response) => {
    const failed = (error: unknown): void => {
      log.error({ err: error, path: request.url?.split("?", 1)[0] }, "an admin request failed");
      if (response.headersSent) response.destroy();
      else sendRefusal(response, "GATEWAY_INTERNAL_ERROR");
    };
    void runGuarded(() => answer(request, response, deps), failed);
  });
  await bind(http, { section: "admin", host, port }, backlog);
  return { url: urlOf(http), close: () => closeServer(http) };
}

interface AdminHandler {
  /** Whether the Host header must name this listener. Health probes may use any name. */
  readonly isGuarded: boolean;
  readonly run: (request: IncomingMessage, response: ServerResponse) => void | Promise<void>;
}

interface AnswerDeps extends AdminOptions {
  readonly handlers: ReadonlyMap<string, AdminHandler>;
  readonly addressOf: ReturnType<typeof addressReader>;
}

function handlersOf(sources: AdminOptions): ReadonlyMap<string, AdminHandler> {
  const { metrics, pipelines, explain, ready } = sources;
  const guardedPath = (run: AdminHandler["run"]): AdminHandler => ({ isGuarded: true, run });
  const openPath = (run: AdminHandler["run"]): AdminHandler => ({ isGuarded: false, run });
  return new Map([
    [
      "/metrics",
      guardedPath(async (_, response) =>
        sendText(response, 200, metrics.contentType, await metrics.render()),
      ),
    ],
    ["/pipelines", guardedPath((_, response) => sendJson(response, pipelines()))],
    [
      "/explain",
      guardedPath(async (request, response) => {
        // A query parameter, because a request id may contain characters that a path cannot, and may be longer.
        const id = new URL(request.url ?? "", "http://localhost").searchParams.get("id") ?? "";
        const { exchanges, missing } = await explain(id);
        const more = missing.length === 0 ? {} : { missing };
        if (exchanges.length === 0) {
          return sendRefusal(response, "GATEWAY_NOT_FOUND", { details: more });
        }
        sendJson(response, { exchanges, ...more });
      }),
    ],
    ["/healthz", openPath((_, response) => sendHealth(response, alive))],
    ["/readyz", openPath((_, response) => sendHealth(response, ready()))],
  ]);
}

/** No handler reads a body. Requests below `/<name>` go to the service with that name. */
function answer(
  request: IncomingMessage,
  response: ServerResponse,
  deps: AnswerDeps,
): void | Promise<void> {
  const path = decodedPath(request.url ?? "/");
  if (path === undefined) return sendRefusal(response, "GATEWAY_INVALID_PARAMS");
  const handler = deps.handlers.get(path);
  if (handler === undefined) return passToService(path, request, response, deps);
  if (request.method !== "GET" && request.method !== "HEAD") {
    return sendReply(response, methodNotAllowed("GET, HEAD"));
  }
  if (handler.isGuarded && refuseForeignHost(request, response, deps.hosts)) return;
  return handler.run(request, response);
}

function decodedPath(url: string): string | undefined {
  try {
    return decodeURIComponent(url.split("?", 1)[0] ?? "");
  } catch {
    return undefined;
  }
}

function passToService(
  path: string,
  request: IncomingMessage,
  response: ServerResponse,
  { hosts, service, addressOf, log }: AnswerDeps,
): void {
  const name = path.split("/", 2)[1] ?? "";
  const hooks = service(name);
  if (hooks?.admin === undefined) return sendRefusal(response, "GATEWAY_NOT_FOUND");
  if (refuseForeignHost(request, response, hosts)) return;
  const failed = (error: unknown): void => {
    log.error({ err: error, service: name }, "an admin request failed");
    response.destroy();
  };
  runGuarded(() => hooks.admin?.(request, response, addressOf(request)), failed);
}

/**
 * Prevents DNS rebinding, so that no web page reads routes and load through a host name that it controls. Returns true
 * if the request has been refused.
 */
function refuseForeignHost(
  request: IncomingMessage,
  response: ServerResponse,
  hosts: readonly string[],
): boolean {
  const message = hostProblem(request, hosts);
  if (message !== undefined) sendRefusal(response, "GATEWAY_PERMISSION_DENIED", { message });
  return message !== undefined;
}

/** Does not wait for scrapers, which keep their connections. */
function closeServer(http: Server): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  http.close(() => resolve());
  http.closeAllConnections();
  return promise;
}

function urlOf(http: Server): string {
  // A listening TCP server has an AddressInfo. Only pipes have a string.
  const { port, address } = http.address() as AddressInfo;
  return `http://${authorityOf(address, port)}`;
}

/** Undefined if the Host header names this listener: an IP address, localhost, or one of `names`. */
function hostProblem(
  { headers }: Pick<IncomingMessage, "headers">,
  names: readonly string[],
): string | undefined {
  const host = hostName(headers.host ?? "");
  if (host === undefined) return "the Host header is missing or not valid";
  if (isIP(host) !== 0 || host === "localhost" || host.endsWith(".localhost")) return undefined;
  if (names.some((name) => name.toLowerCase() === host)) return undefined;
  return `the host name "${host}" is not allowed: add it to admin.hosts in pipeline.yaml, or use the address`;
}

function hostName(header: string): string | undefined {
  const match = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::\d{1,5})?$/i.exec(header);
  return (match?.[1] ?? match?.[2])?.toLowerCase();
}

/** The server sends no body if the request is HEAD. */
function sendText(
  response: ServerResponse,
  status: number,
  contentType: string,
  text: string,
): void {
  response.writeHead(status, {
    "content-type": contentType,
    "content-length": Buffer.byteLength(text),
  });
  response.end(text);
}

const jsonType = "application/json; charset=utf-8";

function sendJson(response: ServerResponse, body: unknown): void {
  sendText(response, 200, jsonType, JSON.stringify(body));
}

function sendHealth(response: ServerResponse, readiness: Readiness): void {
  const { status, body } = healthAnswer(readiness);
  sendText(response, status, jsonType, body);
}

function sendRefusal(
  response: ServerResponse,
  code: GatewayCode,
  options: Parameters<typeof refuse>[1] = {},
): void {
  sendReply(response, refuse(code, options));
}

function sendReply(response: ServerResponse, { status, headers = [], body = "" }: Reply): void {
  response.writeHead(status, [...headers, "content-length", String(Buffer.byteLength(body))]);
  response.end(body);
}
