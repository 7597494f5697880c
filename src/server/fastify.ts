/** Puts the operator's Fastify plugins (`fastify:` in pipeline.yaml) in front of the pipeline's own handler. */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { dirname } from "node:path";
import fastify, { type FastifyPluginAsync } from "fastify";
import type { PluginUse } from "../config/config.ts";
import { locatePackage } from "../pipeline/load.ts";

type Handler = (req: IncomingMessage, res: ServerResponse) => void;

export interface Wrapped {
  readonly server: Server;
  close(): Promise<void>;
}

/**
 * Without Fastify plugins the handler is the server's own listener. With them, every request passes Fastify's hooks
 * first, and the headers that they set are kept. A plugin that answers (`@fastify/static`) answers before any route.
 * Hooks on the payload (`onSend`) do not see streamed answers: the pipeline writes to the socket itself.
 */
export async function behindFastify(
  uses: readonly PluginUse[],
  handle: Handler,
  createServer: (handler: Handler) => Server,
): Promise<Wrapped> {
  if (uses.length === 0) return { server: createServer(handle), close: async () => {} };
  const app = fastify({ serverFactory: (handler) => createServer(handler), logger: false });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_request, _payload, done) => done(null));
  for (const use of uses) {
    const url = locatePackage(use.name, dirname(use.at.file));
    const module: unknown = await import(url ?? use.name);
    await app.register(pluginOf(module, use.name), use.options);
  }
  app.all("/*", (request, reply) => {
    for (const [name, value] of Object.entries(reply.getHeaders())) {
      if (value !== undefined) reply.raw.setHeader(name, value);
    }
    reply.hijack();
    handle(request.raw, reply.raw);
  });
  await app.ready();
  return { server: app.server, close: () => app.close() };
}

function pluginOf(module: unknown, name: string): FastifyPluginAsync<Record<string, unknown>> {
  const plugin =
    typeof module === "object" && module !== null && "default" in module ? module.default : module;
  if (typeof plugin !== "function") throw new Error(`${name} is not a Fastify plugin`);
  // Fastify's plugins are functions of (instance, options): nothing more can be checked from outside.
  return plugin as FastifyPluginAsync<Record<string, unknown>>;
}
