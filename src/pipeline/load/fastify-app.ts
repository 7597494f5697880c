/** The listener uses one instance in front of its handler, and `sluice check` uses others to test the plugins. */
import { randomUUID } from "node:crypto";
import {
  createServer as httpServer,
  METHODS,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import { dirname } from "node:path";
import fastify, {
  type FastifyInstance,
  type FastifyPluginAsync,
  type FastifyReply,
  type FastifyRequest,
} from "fastify";
import type { PluginUse } from "../../config/config.ts";
import { fault, type Fault } from "../../config/fault.ts";
import { isReadable } from "../../config/startable.ts";
import { isObject } from "../../base/is-object.ts";
import { importModule } from "../../import-module.ts";
import type { Log } from "../../plugin.ts";
import { locatePackage } from "./locate-plugin.ts";
import { messageOf } from "../../base/message-of.ts";
import { refuse, type GatewayCode } from "../../base/errors.ts";
import { errorCode } from "../../base/error-code.ts";

type Handler = (req: IncomingMessage, res: ServerResponse) => void;

export interface AppOptions {
  readonly uses: readonly PluginUse[];
  readonly handle: Handler;
  readonly createServer: (handler: Handler) => Server;
  readonly log: Log;
}

export type OpenedApp =
  | { readonly app: FastifyInstance }
  | { readonly failed: PluginUse; readonly error: unknown };

export async function openFastify({
  uses,
  handle,
  createServer,
  log,
}: AppOptions): Promise<OpenedApp> {
  const app = fastify({
    logger: false,
    rewriteUrl: (req) => routable(req.url ?? "/"),
    frameworkErrors: (error, _request, reply) => answerFastifyError(error, reply, log),
    // The listener itself answers bytes that are not HTTP.
    clientErrorHandler: () => undefined,
    serverFactory: (handler: Handler) => createServer(handler),
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_request, _payload, done) => done(null));
  app.setErrorHandler((error, _request, reply) => answerFastifyError(error, reply, log));
  let last: PluginUse | undefined;
  try {
    for (const use of uses) {
      last = use;
      await app.register(await importFastifyPlugin(use), use.options);
    }
    routeToHandler(app, handle);
    await app.ready();
    return { app };
  } catch (error) {
    await app.close().catch(() => undefined);
    if (last === undefined) throw error;
    return { failed: last, error };
  }
}

function routeToHandler(app: FastifyInstance, handle: Handler): void {
  const answer = (request: FastifyRequest, reply: FastifyReply): void => {
    for (const [name, value] of Object.entries(reply.getHeaders())) {
      if (value !== undefined) reply.raw.setHeader(name, value);
    }
    reply.hijack();
    request.raw.url = request.originalUrl;
    handle(request.raw, reply.raw);
  };
  for (const method of METHODS) {
    if (!app.supportedMethods.includes(method)) app.addHttpMethod(method, { hasBody: true });
  }
  const url = "/*";
  // A plugin may take a method for all paths (`@fastify/static` takes GET). It keeps that route.
  const free = app.supportedMethods.filter((method) => !app.hasRoute({ method, url }));
  if (free.length > 0) app.route({ method: free, url, handler: answer });
  try {
    // For requests that a plugin gives up on (`reply.callNotFound`).
    app.setNotFoundHandler(answer);
  } catch {
    // A plugin has set its own not-found handler.
  }
}

/**
 * Returns a target that Fastify's router can decode. It answers a path that it cannot decode before any plugin's hook
 * runs, so such a path would bypass the plugins. The handler gets the target as it was sent.
 */
function routable(target: string): string {
  if (!target.startsWith("/")) return /^https?:\/\/[^/]*\//.test(target) ? target : "/";
  const mark = target.indexOf("?");
  const path = mark === -1 ? target : target.slice(0, mark);
  if (!path.includes("%") || isDecodable(path)) return target;
  return path.replaceAll("%", "%25") + target.slice(path.length);
}

function isDecodable(path: string): boolean {
  try {
    decodeURIComponent(path);
    return true;
  } catch {
    return false;
  }
}

/** Imports a Fastify plugin, resolved from the folder of pipeline.yaml. Throws if it is missing or not a function. */
async function importFastifyPlugin(
  use: PluginUse,
): Promise<FastifyPluginAsync<Record<string, unknown>>> {
  const url = locatePackage(use.name, dirname(use.at.file));
  const module: unknown = await importModule(url ?? use.name);
  const plugin = isObject(module) && "default" in module ? module["default"] : module;
  if (typeof plugin !== "function") throw new Error("the module does not export a Fastify plugin");
  // Fastify's plugins are functions of (instance, options). Nothing else can be checked from outside.
  return plugin as FastifyPluginAsync<Record<string, unknown>>;
}

export function registrationFault(use: PluginUse, error: unknown): Fault {
  const reason = messageOf(error);
  const message = `${use.name} did not start: ${reason.split("\n", 1)[0]}`;
  return fault("SLUICE_PLUGIN_START", message, { at: use.at });
}

const missingDependencyCodes = [
  "FST_ERR_DEC_MISSING_DEPENDENCY",
  "FST_ERR_PLUGIN_NOT_PRESENT_IN_INSTANCE",
  "FST_ERR_PLUGIN_DEPENDENCY_NOT_REGISTERED",
];

/** Tests each plugin together with the working plugins before it, on instances that never listen. */
export async function fastifyFaults(uses: readonly PluginUse[], log: Log): Promise<Fault[]> {
  const faults: Fault[] = [];
  const working: PluginUse[] = [];
  const handle = (): void => {};
  for (const use of uses) {
    if (locatePackage(use.name, dirname(use.at.file)) === undefined || !isReadable(use)) continue;
    const opened = await openFastify({
      uses: [...working, use],
      handle,
      createServer: httpServer,
      log,
    });
    if ("app" in opened) {
      await opened.app.close();
      working.push(use);
    } else if (!isFollowUp(opened.error, working.length < uses.indexOf(use))) {
      faults.push(registrationFault(use, opened.error));
    }
  }
  return faults;
}

function isFollowUp(error: unknown, othersFailed: boolean): boolean {
  const code = errorCode(error) ?? "";
  return othersFailed && missingDependencyCodes.includes(code);
}

/** Codes for the statuses of errors of Fastify and its plugins, whose messages are not sent. */
const codes: Readonly<Record<number, GatewayCode>> = {
  401: "GATEWAY_UNAUTHORIZED",
  403: "GATEWAY_PERMISSION_DENIED",
  404: "GATEWAY_NOT_FOUND",
  409: "GATEWAY_CONFLICT",
  429: "GATEWAY_RATE_LIMITED",
  502: "GATEWAY_SERVICE_UNAVAILABLE",
  503: "GATEWAY_SERVICE_UNAVAILABLE",
  504: "GATEWAY_SERVICE_UNAVAILABLE",
};

/**
 * Answers with the code that matches the status of `error`, and keeps the headers that a plugin has set. An error that
 * is not the client's fault is logged here with the request's id, because no step runs that would log it.
 */
function answerFastifyError(error: unknown, reply: FastifyReply, log: Log): void {
  const wanted = statusOf(error);
  const isClients = wanted >= 400 && wanted < 500;
  const code = codes[wanted] ?? (isClients ? "GATEWAY_INVALID_PARAMS" : "GATEWAY_INTERNAL_ERROR");
  const { status, headers = [], body } = refuse(code, isClients ? { status: wanted } : {});
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const [name = "", value = ""] = headers.slice(i, i + 2);
    // A plugin's own `Retry-After` is more precise than the one of the catalogue.
    if (name === "content-type" || !reply.hasHeader(name)) void reply.header(name, value);
  }
  const requestId = randomUUID();
  if (!isClients) log.error({ err: error, requestId, status }, "a Fastify plugin failed");
  void reply.header("x-request-id", requestId).code(status).send(body);
}

function statusOf(error: unknown): number {
  return isObject(error) && "statusCode" in error ? Number(error["statusCode"]) : 500;
}
