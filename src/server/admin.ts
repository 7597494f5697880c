/**
 * The second listener: metrics, the pipeline as loaded, health. It asks for no key and tells what clients must not know
 * (names of upstreams, routes, load), so it belongs on loopback or a private network, never on the internet.
 */
import type { AddressInfo } from "node:net";
import { fastify, type FastifyInstance, type FastifyReply } from "fastify";
import { refuse, type GatewayCode } from "../errors.ts";
import type { RenderedMetrics } from "../metrics.ts";
import type { Log } from "../plugin.ts";

export interface AdminOptions {
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
  readonly metrics: Pick<RenderedMetrics, "render" | "contentType">;
  /** What /pipelines answers with, as JSON. */
  readonly pipelines: () => unknown;
  /** What /readyz answers with: 503 while not ready. */
  readonly ready: () => {
    readonly ready: boolean;
    /** Name of a check to `ok`, or to what is wrong. */
    readonly checks: Readonly<Record<string, string>>;
  };
  readonly log: Log;
}

export interface Admin {
  readonly url: string;
  /** Ends running requests and idle connections, and closes the port. */
  close(): Promise<void>;
}

/** Opens the listener. Rejects with the system's error when it cannot (EADDRINUSE). */
export async function startAdmin(options: AdminOptions): Promise<Admin> {
  const app = fastify({
    logger: false,
    // A scraper keeps its connection alive: closing must not wait for it.
    forceCloseConnections: true,
  });
  // No route takes a body: whatever one is sent stays unread, so that it cannot turn a 405 into a 400.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_, __, done) => done(null));
  routes(app, options);
  errors(app, options.log);
  await app.listen({ host: options.host, port: options.port });
  const { port, family, address } = boundTo(app);
  return {
    url: `http://${family === "IPv6" ? `[${address}]` : address}:${port}`,
    close: () => app.close(),
  };
}

const paths = ["/metrics", "/pipelines", "/healthz", "/readyz"];

function routes(app: FastifyInstance, { metrics, pipelines, ready }: AdminOptions): void {
  app.get("/metrics", async (_, reply) => {
    const text = await metrics.render();
    return reply.type(metrics.contentType).send(text);
  });
  app.get("/pipelines", (_, reply) => json(reply, 200, pipelines()));
  app.get("/healthz", (_, reply) => json(reply, 200, { status: "ok", checks: {} }));
  app.get("/readyz", (_, reply) => {
    const { ready: isReady, checks } = ready();
    return json(reply, isReady ? 200 : 503, { status: isReady ? "ok" : "unavailable", checks });
  });
}

function json(reply: FastifyReply, status: number, body: unknown): FastifyReply {
  return reply.code(status).type("application/json").send(JSON.stringify(body));
}

/** Every error in the canonical envelope, without what went wrong inside. */
function errors(app: FastifyInstance, log: Log): void {
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split("?", 1)[0] ?? "";
    if (!paths.includes(path)) return send(reply, "GATEWAY_NOT_FOUND");
    return send(reply, "GATEWAY_INVALID_PARAMS", {
      status: 405,
      message: "method not allowed",
      headers: ["allow", "GET, HEAD"],
    });
  });
  app.setErrorHandler((error: Error & { statusCode?: number }, request, reply) => {
    const status = error.statusCode ?? 500;
    if (status < 500) return send(reply, "GATEWAY_INVALID_PARAMS", { status });
    log.error({ err: error, path: request.url }, "an admin request failed");
    return send(reply, "GATEWAY_INTERNAL_ERROR");
  });
}

function send(
  reply: FastifyReply,
  code: GatewayCode,
  options: Parameters<typeof refuse>[1] = {},
): FastifyReply {
  const { status, headers = [], body } = refuse(code, options);
  for (let at = 0; at + 1 < headers.length; at += 2) {
    void reply.header(headers[at] ?? "", headers[at + 1] ?? "");
  }
  return reply.code(status).send(body);
}

function boundTo(app: FastifyInstance): AddressInfo {
  const address = app.server.address();
  if (address === null || typeof address === "string") throw new Error("no TCP address");
  return address;
}
