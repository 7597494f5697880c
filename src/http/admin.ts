/**
 * The admin listener: metrics, the loaded pipeline, health and the pages of services, such as the dashboard. All except
 * those pages need no key and reveal what clients must not know (names of upstreams, routes, load). The listener must
 * therefore be on loopback or on a private network, never on the internet.
 */
import type { AddressInfo } from "node:net";
import { randomUUID } from "node:crypto";
import {
  fastify,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type onRequestHookHandler,
} from "fastify";
import type { RenderedMetrics } from "../metrics.ts";
import type { Log, ServiceHooks } from "../plugin.ts";
import { answerErrors, sendJson, sendRefusal } from "./admin-answer.ts";
import { hostProblem } from "./admin-hosts.ts";
import { ListenError } from "./listen-error.ts";

export interface AdminOptions {
  readonly host: string;
  /** 0 selects a free port. */
  readonly port: number;
  /** Host names that /metrics, /pipelines and /explain accept, in addition to IP addresses and localhost. */
  readonly hosts: readonly string[];
  readonly metrics: Pick<RenderedMetrics, "render" | "contentType">;
  /** Returns the answer of /pipelines, which is sent as JSON. */
  readonly pipelines: () => unknown;
  /** Returns the explanations of the exchanges with a request id, newest first. */
  readonly explain: (requestId: string) => readonly object[];
  /** Returns the answer of /readyz, whose status is 503 while the gateway is not ready. */
  readonly ready: () => {
    readonly ready: boolean;
    /** The result of each check by its name: `ok`, or a description of the fault. */
    readonly checks: Readonly<Record<string, string>>;
  };
  /** Returns the running service with this name. It answers the requests below `/<name>` if it has `admin`. */
  readonly service: (name: string) => Pick<ServiceHooks<unknown>, "admin"> | undefined;
  readonly log: Log;
}

export interface Admin {
  readonly url: string;
  /** Ends running requests and idle connections, and closes the port. */
  close(): Promise<void>;
}

/** Opens the listener. Rejects with a `ListenError` if the system refuses the address. */
export async function startAdmin(options: AdminOptions): Promise<Admin> {
  const app = fastify({
    logger: false,
    genReqId: () => randomUUID(),
    // Scrapers keep their connections alive, and closing must not wait for them.
    forceCloseConnections: true,
  });
  // No route reads a body. Bodies of any type are ignored, so that they cannot turn a 405 into a 400.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_, __, done) => done(null));
  routes(app, options);
  errors(app, options.log);
  serviceRoutes(app, options);
  await app.ready();
  await listenOn(app, options);
  const { port, family, address } = boundTo(app);
  return {
    url: `http://${family === "IPv6" ? `[${address}]` : address}:${port}`,
    close: () => app.close(),
  };
}

async function listenOn(app: FastifyInstance, { host, port }: AdminOptions): Promise<void> {
  try {
    await app.listen({ host, port });
  } catch (error) {
    throw new ListenError({ section: "admin", host, port }, error);
  }
}

const paths = ["/metrics", "/pipelines", "/explain", "/healthz", "/readyz"];

function routes(app: FastifyInstance, { hosts, ...sources }: AdminOptions): void {
  const { metrics, pipelines, explain, ready } = sources;
  // Prevents DNS rebinding, so that no web page can read routes or load. Health probes may use any name.
  const guarded: { onRequest: onRequestHookHandler } = {
    onRequest(request, reply, done) {
      if (!refuseForeignHost(request, reply, hosts)) done();
    },
  };
  app.get("/metrics", guarded, async (_, reply) => {
    const text = await metrics.render();
    return reply.type(metrics.contentType).send(text);
  });
  app.get("/pipelines", guarded, (_, reply) => sendJson(reply, 200, pipelines()));
  app.get("/explain", guarded, (request, reply) => {
    // A query parameter, because a request id may contain characters that a path cannot, and may be longer.
    const id = new URL(request.url, "http://localhost").searchParams.get("id") ?? "";
    const exchanges = explain(id);
    if (exchanges.length === 0) return sendRefusal(reply, "GATEWAY_NOT_FOUND");
    return sendJson(reply, 200, { exchanges });
  });
  app.get("/healthz", (_, reply) => sendJson(reply, 200, { status: "ok", checks: {} }));
  app.get("/readyz", (_, reply) => {
    const { ready: isReady, checks } = ready();
    return sendJson(reply, isReady ? 200 : 503, { status: isReady ? "ok" : "unavailable", checks });
  });
}

/** Passes the requests below `/<name>` to the service with that name. */
function serviceRoutes(app: FastifyInstance, { hosts, service, log }: AdminOptions): void {
  const pass = (request: FastifyRequest, reply: FastifyReply): void => {
    const { name } = request.params as { name: string };
    const hooks = service(name);
    if (hooks?.admin === undefined) return reply.callNotFound();
    if (refuseForeignHost(request, reply, hosts)) return;
    reply.hijack();
    try {
      hooks.admin(request.raw, reply.raw);
    } catch (error) {
      log.error({ err: error, service: name }, "an admin request failed");
      reply.raw.destroy();
    }
  };
  app.all("/:name", pass);
  app.all("/:name/*", pass);
}

/** Prevents that a web page reads routes and load through a host name that it controls. */
function refuseForeignHost(
  request: FastifyRequest,
  reply: FastifyReply,
  hosts: readonly string[],
): boolean {
  const message = hostProblem(request, hosts);
  if (message !== undefined) sendRefusal(reply, "GATEWAY_PERMISSION_DENIED", { message });
  return message !== undefined;
}

/** Answers every error with the canonical envelope, without internal details. */
function errors(app: FastifyInstance, log: Log): void {
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split("?", 1)[0] ?? "";
    if (!paths.includes(path)) return sendRefusal(reply, "GATEWAY_NOT_FOUND");
    return sendRefusal(reply, "GATEWAY_INVALID_PARAMS", {
      status: 405,
      message: "method not allowed",
      headers: ["allow", "GET, HEAD"],
    });
  });
  answerErrors(app, log);
}

function boundTo(app: FastifyInstance): AddressInfo {
  const address = app.server.address();
  if (address === null || typeof address === "string")
    throw new Error("the admin server has no TCP address");
  return address;
}
