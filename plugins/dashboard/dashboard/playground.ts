/**
 * Sends requests of the view Playground to the public listener of this gateway, because the page may only reach its own
 * origin. The user enters a key for it, which is forwarded and never stored. Only a few kinds of calls are forwarded,
 * so the page cannot reach anything else. `@fastify/http-proxy` needs the same code to change the body, the status and
 * the fields, and would add undici, which is 870 KB, to the package.
 */
import { request as requestHttp, type IncomingMessage } from "node:http";
import { request as requestHttps } from "node:https";
import type { FastifyReply } from "fastify";
import { sendJson, sendRefusal } from "./answer.ts";
import { checker } from "./input.ts";
import type { DashboardDeps } from "./deps.ts";
import type { AddRoute, Handler } from "./route.ts";

const kinds = {
  chat: { surface: "chat", method: "POST" },
  models: { surface: "models", method: "GET" },
  tools: { surface: "tool-rpc", method: "POST" },
  node: { surface: "ledger-rpc", method: "POST" },
} as const;

type Kind = keyof typeof kinds;

interface WantedCall {
  readonly kind: Kind;
  readonly key: string;
  readonly body?: object;
}

const problemOf = checker({
  type: "object",
  properties: {
    kind: { enum: Object.keys(kinds) },
    key: { type: "string", pattern: "^[!-~]{1,200}$" },
    body: { type: "object" },
  },
  required: ["kind", "key"],
  additionalProperties: false,
});

export function playgroundRoutes(add: AddRoute, deps: DashboardDeps): void {
  add(
    "GET",
    "playground",
    (_viewer, _, reply) => sendJson(reply, 200, { origin: originOf(deps), paths: pathsOf(deps) }),
    "platform",
  );
  add("POST", "playground", call(deps), "platform");
}

/** A kind without a route is missing. */
function pathsOf({ gateway }: DashboardDeps): Partial<Record<Kind, string>> {
  const { routes } = gateway.running();
  const found: Partial<Record<Kind, string>> = {};
  for (const kind of ["chat", "models", "tools", "node"] as const) {
    const { surface, method } = kinds[kind];
    const route = routes.find(
      ({ path, methods, surface: { name } }) =>
        name === surface && methods.includes(method) && !/[{*]/.test(path),
    );
    if (route !== undefined) found[kind] = route.path;
  }
  return found;
}

/** A listener on all addresses is reached on the loopback address. */
function originOf({ gateway }: DashboardDeps): string {
  const { origin } = gateway.running();
  return origin.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:");
}

/**
 * Answers with 200 and the body of the gateway's answer as plain text, so that a browser never interprets it. Its
 * status and cost are in separate header fields.
 */
function call(deps: DashboardDeps): Handler {
  return async (_viewer, request, reply) => {
    const message = problemOf(request.body);
    if (message !== undefined) return sendRefusal(reply, "GATEWAY_SCHEMA_VIOLATION", { message });
    // The schema describes this type.
    const wanted = request.body as WantedCall;
    const path = pathsOf(deps)[wanted.kind];
    if (path === undefined) {
      return sendRefusal(reply, "GATEWAY_NOT_FOUND", {
        message: "no route of pipeline.yaml serves this kind of call",
      });
    }
    let answer: IncomingMessage;
    try {
      answer = await send(originOf(deps) + path, wanted, request.id, reply);
    } catch (error) {
      deps.log.warn({ err: error }, "dashboard: the playground cannot reach the gateway");
      return sendRefusal(reply, "GATEWAY_SERVICE_UNAVAILABLE");
    }
    const cost = answer.headers["x-used-cu-milli"];
    if (typeof cost === "string") void reply.header("x-playground-cost-milli-cu", cost);
    return reply
      .code(200)
      .type("text/plain; charset=utf-8")
      .header("x-playground-status", String(answer.statusCode ?? 0))
      .send(answer);
  };
}

/** Resolves with the head of the answer. Rejects if there is none. Ends when the user disconnects. */
function send(
  url: string,
  { kind, key, body }: WantedCall,
  requestId: string,
  reply: FastifyReply,
): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const aborter = new AbortController();
  const text = body === undefined ? undefined : JSON.stringify(body);
  const options = {
    method: kinds[kind].method,
    signal: aborter.signal,
    headers: {
      authorization: `Bearer ${key}`,
      "x-request-id": requestId,
      ...(text !== undefined && {
        "content-type": "application/json",
        "content-length": Buffer.byteLength(text),
      }),
    },
  };
  // The certificate is for the public name, and this connection does not leave the machine.
  const sent = url.startsWith("https:")
    ? requestHttps(url, { ...options, rejectUnauthorized: false })
    : requestHttp(url, options);
  sent.on("response", resolve);
  sent.on("error", reject);
  reply.raw.on("close", () => aborter.abort());
  sent.end(text);
  return promise;
}
