/**
 * The second listener: metrics, the pipeline as loaded, health, the dashboard. All but the dashboard ask for no key and
 * tell what clients must not know (names of upstreams, routes, load), so it belongs on loopback or a private network,
 * never on the internet.
 */
import type { AddressInfo } from "node:net";
import { randomUUID } from "node:crypto";
import { fastify, type FastifyInstance } from "fastify";
import type { RenderedMetrics } from "../metrics.ts";
import type { Log } from "../plugin.ts";
import { sendJson, sendRefusal } from "./admin-answer.ts";
import { dashboard, prefix } from "../../plugins/dashboard/dashboard/dashboard.ts";
import { onlyNamed } from "../../plugins/dashboard/dashboard/guard.ts";
import type { DashboardParts } from "../../plugins/dashboard/dashboard/parts.ts";
import { ListenError } from "./listen-error.ts";

export interface AdminOptions {
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
  /** Names in the Host header that /metrics, /pipelines and /explain accept, beside addresses and localhost. */
  readonly hosts: readonly string[];
  readonly metrics: Pick<RenderedMetrics, "render" | "contentType">;
  /** What /pipelines answers with, as JSON. */
  readonly pipelines: () => unknown;
  /** What is known of the exchanges with a request id, newest first. */
  readonly explain: (requestId: string) => readonly object[];
  /** What /readyz answers with: 503 while not ready. */
  readonly ready: () => {
    readonly ready: boolean;
    /** Name of a check to `ok`, or to what is wrong. */
    readonly checks: Readonly<Record<string, string>>;
  };
  /** Absent: there is no dashboard. */
  readonly dashboard?: DashboardParts;
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
    // A scraper keeps its connection alive: closing must not wait for it.
    forceCloseConnections: true,
  });
  // No route takes a body: whatever one is sent stays unread, so that it cannot turn a 405 into a 400.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_, __, done) => done(null));
  routes(app, options);
  errors(app, options.log);
  if (options.dashboard !== undefined) {
    await app.register(dashboard(options.dashboard), { prefix });
  }
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

function routes(app: FastifyInstance, { hosts, ...told }: AdminOptions): void {
  const { metrics, pipelines, explain, ready } = told;
  // No page of a rebound name may read routes, load or charges. Health stays open: probes use any name.
  const guarded = { onRequest: onlyNamed(hosts) };
  app.get("/metrics", guarded, async (_, reply) => {
    const text = await metrics.render();
    return reply.type(metrics.contentType).send(text);
  });
  app.get("/pipelines", guarded, (_, reply) => sendJson(reply, 200, pipelines()));
  app.get("/explain", guarded, (request, reply) => {
    // A request id may hold what a path may not, and be longer than a parameter of one.
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

/** Every error in the canonical envelope, without what went wrong inside. */
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
  app.setErrorHandler((error: Error & { statusCode?: number }, request, reply) => {
    const status = error.statusCode ?? 500;
    if (status < 500) return sendRefusal(reply, "GATEWAY_INVALID_PARAMS", { status });
    log.error({ err: error, path: request.url }, "an admin request failed");
    return sendRefusal(reply, "GATEWAY_INTERNAL_ERROR");
  });
}

function boundTo(app: FastifyInstance): AddressInfo {
  const address = app.server.address();
  if (address === null || typeof address === "string")
    throw new Error("the admin server has no TCP address");
  return address;
}
